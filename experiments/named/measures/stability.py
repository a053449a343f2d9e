"""Figures of `python -m experiments.stability` in a named experiment.

An entry of `settings` is those of the command, without folder and jobs, and `panels`: which of the
figure's pictures are shown, by the beginning of their names; all if it is left out. figure=trained
takes the experiment's own finished runs. The results are the figures' JSON by figure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looplab.conf.build import build
from looplab.conf.command import as_word
from looplab.conf.mistakes import RunError
from looplab.evaluation.panel import Panel
from looplab.experiments.stability.run import StabilityFigure
from looplab.experiments.stability.settings import FIGURES, StabilitySettings
from looplab.training.jobs import cores

from ...measuring import Measurement, Request, own_settings


def measure(request: Request) -> Measurement:
    """Measure each figure, or find it below <folder>/experiments/stability; one that fails is said
    in `missing`. Raises ConfigError for invalid settings."""
    results: dict[str, Any] = {}
    panels: list[Panel] = []
    missing: list[str] = []
    for entry in request.settings:
        settings, shown = settings_of(entry, request)
        if settings.figure == "trained" and not settings.runs:
            missing.append("figure=trained: none of its runs is finished")
            continue
        try:
            figure = StabilityFigure(settings)
            result = figure.stored() if request.stored_only else figure.result()
        except RunError as error:
            missing.append(f"figure={settings.figure}: {error}")
            continue
        if result is None:
            missing.append(f"{command(settings)}: not measured yet")
            continue
        results[settings.figure] = result
        labels = {run.path: run.label for run in request.runs}
        if settings.figure == "trained":
            runs = [{**run, "label": labels[run["run"]]} for run in result["runs"]]
            result = {**result, "runs": runs}
        panels += [
            panel
            for panel in figure.module.panels(result)
            if not shown or panel.name.startswith(shown)
        ]
    return Measurement({"stability": results} if results else {}, panels, missing)


def settings_of(
    entry: Mapping[str, Any], request: Request
) -> tuple[StabilitySettings, tuple[str, ...]]:
    """The command's settings of an entry, and the beginnings of the names of the panels that it
    shows. ConfigError for a key that is no setting, or is not for an experiment to give."""
    given = own_settings(entry, "folder", "jobs", "runs")
    shown = tuple(given.pop("panels", ()))
    given["folder"] = str(Path(request.folder) / "experiments" / "stability")
    name = given.get("figure")
    takes = FIGURES[name].takes if name in FIGURES else ()
    if "runs" in takes:
        given["runs"] = [run.path for run in request.runs]
    if "jobs" in takes:
        given["jobs"] = request.processes or cores()
    settings = build(StabilitySettings, given)
    if settings.figure != "trained" or settings.runs:
        settings.check()
    return settings, shown


def command(settings: StabilitySettings) -> str:
    """The command that measures a figure alone, with the settings that are not its defaults."""
    defaults = StabilitySettings(settings.figure)
    words = [
        f"{key}={as_word(value)}"
        for key, value in vars(settings).items()
        if key not in ("figure", "jobs") and value != getattr(defaults, key)
    ]
    command = ["python", "-m", "experiments.stability", f"figure={settings.figure}", *words]
    return shlex.join(command)
