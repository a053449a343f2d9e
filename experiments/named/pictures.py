"""Draw an experiment's panels: a picture and a CSV each."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from looplab.conf.schema import FigureSettings
from looplab.evaluation.bootstrap import Band
from looplab.evaluation.figures import (
    Pictures,
    band,
    log_above_rounding,
    mark_loops,
    name_curves,
    note_level,
    ticks_at,
    whole_numbers,
)
from looplab.evaluation.style import LineStyle, style_of_number, styles_of

from .results import Curve, ExperimentResult, Panel


def draw_panels(
    result: ExperimentResult, folder: Path, settings: FigureSettings | None = None
) -> list[Path]:
    """Write the pictures of all panels into `folder`, each with its CSV, and remove earlier ones;
    returns the files."""
    if folder.is_dir():
        for old in folder.iterdir():
            old.unlink()
    with Pictures(folder, settings) as pictures:
        for panel in result["panels"]:
            _draw(result, panel, pictures)
    return pictures.files


def _draw(result: ExperimentResult, panel: Panel, pictures: Pictures) -> None:
    figure = pictures.figure()
    axes = figure.subplots()
    for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
        points = curve.get("points", False)
        band(axes, panel["x"], _band(curve), curve["label"], style, points)
    if panel["x_label"] == "loop":
        for b in sorted({curve["b"] for curve in panel["curves"] if "b" in curve}):
            mark_loops(axes, b)
    axes.set_xlabel(panel["x_label"])
    axes.set_ylabel(panel["y_label"])
    _scales(axes, panel)
    for name, height in panel["levels"].items():
        note_level(axes, height, name)
    name_curves(figure)
    finished = [each for each in result["members"] if each["state"] == "finished"]
    count = len(result["missing"])
    remarks = [f"{count} of its trainings or measurements not finished"] if count else []
    if others := sum(bool(each["remarks"]) for each in finished):
        remarks.append(f"{others} of its {len(finished)} trainings have remarks: see result.json")
    pictures.title(figure, f"{result['title']}: {panel['title']}", remarks)
    curves = {curve["name"]: _band(curve) for curve in panel["curves"]}
    x = panel.get("x_names", panel["x"])
    pictures.save(figure, panel["name"], panel["x_label"], x, curves)


def _scales(axes: Axes, panel: Panel) -> None:
    if "x_names" in panel:
        axes.set_xticks(panel["x"], panel["x_names"], rotation=45, ha="right")
    elif panel["log_x"] and any(curve.get("points") for curve in panel["curves"]):
        axes.set_xscale("log")  # points lie anywhere: their values are no ticks
    elif panel["log_x"]:
        ticks_at(axes, panel["x"])
    elif all(float(x).is_integer() for x in panel["x"]):
        whole_numbers(axes)
    if panel["log_y"]:
        bands = [_band(curve) for curve in panel["curves"]]
        models = [_band(curve) for curve in panel["curves"] if "b" in curve or "number" in curve]
        log_above_rounding(axes, models or bands, bands)


def _styles(curves: list[Curve]) -> list[LineStyle]:
    """By the number that a curve stands for, where all of one kind have one; else by kind."""
    by_kind = styles_of([curve["kind"] for curve in curves])
    return [
        style_of_number(curve["number"]) if "number" in curve else style
        for curve, style in zip(curves, by_kind, strict=True)
    ]


def _band(curve: Curve) -> Band:
    return {"mean": curve["mean"], "low": curve["low"], "high": curve["high"]}
