"""Draw an experiment's panels: a PNG and a CSV each."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from reloop.evaluation.bootstrap import Band
from reloop.evaluation.figures import (
    band,
    legend_beside,
    line,
    log_above_rounding,
    mark_loops,
    note_level,
    save,
    styled,
    whole_numbers,
)

from .results import Curve, ExperimentResult, Panel

_FAMILIES = ("looped", "standard", "tied")


def draw_panels(result: ExperimentResult, folder: Path) -> list[Path]:
    """Write the pictures of all panels into `folder`, each with its CSV, and remove earlier ones;
    returns the files."""
    for old in [*folder.glob("*.png"), *folder.glob("*.csv")]:
        old.unlink()
    paths = []
    with styled():
        for panel in result["panels"]:
            path = folder / f"{panel['name']}.png"
            _draw(result, panel, path)
            paths += [path, path.with_suffix(".csv")]
    return paths


def _draw(result: ExperimentResult, panel: Panel, path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    for index, curve in enumerate(panel["curves"]):
        is_model = curve["kind"] in _FAMILIES
        style = line(index, dashed=not is_model)
        band(axes, panel["x"], _band(curve), curve["label"], style)
    for b in sorted({curve["b"] for curve in panel["curves"] if "b" in curve}):
        if panel["x_label"] == "loop":
            mark_loops(axes, b)
    axes.set_xlabel(panel["x_label"])
    axes.set_ylabel(panel["y_label"])
    if panel["log_x"]:
        axes.set_xscale("log")
    elif all(float(x).is_integer() for x in panel["x"]):
        whole_numbers(axes)
    models = [_band(curve) for curve in panel["curves"] if curve["kind"] in _FAMILIES]
    if panel["log_y"]:
        log_above_rounding(axes, models, [_band(curve) for curve in panel["curves"]])
    for name, height in panel["levels"].items():
        note_level(axes, height, name)
    legend_beside(axes)
    unfinished = [f"\n{len(result['missing'])} not finished"] if result["missing"] else []
    figure.suptitle("".join([f"{result['title']}: {panel['title']}", *unfinished]))
    curves = {curve["name"]: _band(curve) for curve in panel["curves"]}
    save(figure, path, panel["x_label"], panel["x"], curves)


def _band(curve: Curve) -> Band:
    return {"mean": curve["mean"], "low": curve["low"], "high": curve["high"]}
