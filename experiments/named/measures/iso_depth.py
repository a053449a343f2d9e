"""The iso-depth law (`python -m experiments.iso_depth`) in a named experiment.

The entry of `settings`, one, is those of the command, without folder and jobs. The result, under
"iso_depth", is the content of iso_depth.json.
"""

from __future__ import annotations

from looplab.conf.build import build
from looplab.conf.mistakes import RunError
from looplab.evaluation.panel import Panel
from looplab.experiments.iso_depth.run import iso_depth, stored
from looplab.experiments.iso_depth.settings import IsoDepthSettings

from ...measuring import Measurement, Request


def measure(request: Request) -> Measurement:
    """Train and fit below the folder of all runs, or read what was fitted there. What failed is
    said in `missing`, the runs that did not are in the result. Raises ConfigError for invalid
    settings."""
    settings = settings_of(request)
    missing = []
    if not request.stored_only:
        try:
            iso_depth(settings)
        except RunError as error:
            missing.append(f"iso-depth law: {error}")
    result = stored(settings)
    if result is None:
        return Measurement(missing=missing or ["iso-depth law: not measured yet"])
    return Measurement(
        {"iso_depth": result}, [Panel.read(panel) for panel in result["panels"]], missing
    )


def settings_of(request: Request) -> IsoDepthSettings:
    """The settings of the command."""
    given = request.only_settings("the law", "folder", "jobs")
    own = {"folder": request.folder, "jobs": request.processes}
    settings = build(IsoDepthSettings, given | own)
    settings.check()
    return settings
