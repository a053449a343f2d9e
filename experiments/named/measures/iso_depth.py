"""The iso-depth law (`python -m experiments.iso_depth`) in a named experiment.

The entry of `settings`, one, is those of the command, without folder and jobs. The result, under
"iso_depth", is the content of iso_depth.json, with `law`, that of scaling_law.json (None if no law
could be fitted), and `runs`, a row for each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from looplab.conf.build import build
from looplab.conf.mistakes import RunError
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.panel import Curve, Panel, without_interval
from looplab.experiments.iso_depth.run import iso_depth, stored
from looplab.experiments.iso_depth.settings import IsoDepthSettings

from ...measuring import Measurement, Request

Rows = Sequence[Mapping[str, Any]]
_LOSS = "error / variance of y, mean over k"


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
    found = stored(settings)
    if found is None:
        return Measurement(missing=missing or ["iso-depth law: not measured yet"])
    result = {**found["result"], "law": found["law"], "runs": found["rows"]}
    return Measurement({"iso_depth": result}, panels_of(result), missing)


def settings_of(request: Request) -> IsoDepthSettings:
    """The settings of the command."""
    given = request.only_settings("the law", "folder", "jobs")
    own = {"folder": request.folder, "jobs": request.processes}
    settings = build(IsoDepthSettings, given | own)
    settings.check()
    return settings


def panels_of(result: Mapping[str, Any]) -> list[Panel]:
    """Loss by steps, a panel for each width and a curve for each r; and where there is a law, loss
    by effective parameters, measured and by the law. There are no intervals: each is one run."""
    runs: Rows = result["runs"]
    levels = {"predicting zero": result["zero"], "least possible": result["bayes"]}
    steps = sorted({row["steps"] for row in runs})
    found = []
    for width in sorted({row["width"] for row in runs}):
        curves = []
        for r in sorted({row["r"] for row in runs}):
            values = {
                row["steps"]: row["loss"] for row in runs if (row["r"], row["width"]) == (r, width)
            }
            losses = numbers([values.get(step) for step in steps])
            curves.append(Curve.of(f"r = {r:g}", "loops", without_interval(losses), number=r))
        axes = ("steps of training", _LOSS)
        title = f"one effective depth, {width} wide"
        name = f"iso-depth-width-{width}"
        found.append(Panel(name, title, *axes, steps, curves, log="x", levels=levels))
    if result["law"] is not None:
        found.append(_by_effective(result["law"]["fits"]["free"]["law"], runs, levels))
    return found


def _by_effective(law: Mapping[str, float], runs: Rows, levels: dict[str, float]) -> Panel:
    """Loss of the runs that left the plateau by N_once + r^phi N_rec."""
    sizes = {_effective(law, row) for row in runs}
    x = sorted(sizes)
    curves = []
    for data in sorted({row["D"] for row in runs}):
        values = {
            _effective(law, row): row["loss"]
            for row in runs
            if row["left_plateau"] and row["D"] == data
        }
        if not values:
            continue
        steps = next(row["steps"] for row in runs if row["D"] == data)
        measured = without_interval(numbers([values.get(size) for size in x]))
        fitted = (
            law["E"] + law["A"] * np.array(x) ** -law["alpha"] + law["B"] * data ** -law["beta"]
        )
        curves.append(Curve.of(f"{steps:,} steps, measured", "measured", measured, number=steps))
        curves.append(
            Curve.of(f"{steps:,} steps, the law", "law", without_interval(fitted), number=steps)
        )
    axes = ("N_once + r^φ N_rec", _LOSS)
    title = f"the law with φ = {law['phi']:.2f}"
    return Panel("iso-depth-law", title, *axes, x, curves, log="x", levels=levels)


def _effective(law: Mapping[str, float], row: Mapping[str, Any]) -> float:
    return float(row["N_once"] + row["r"] ** law["phi"] * row["N_rec"])
