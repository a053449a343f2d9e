"""The picture of a training: its loss by step, and below it what grows with the step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from reloop.training.run_folder.metrics import smoothed

from ..bootstrap import numbers
from ..results import Evaluation, unit
from ..style import style_of
from .axes import Curve
from .canvas import Pictures

_WINDOW = 12  # parts of a training: the loss is smoothed over about one
_STAGE = ("loops", "dims", "points")


def draw_training(
    result: Evaluation, metrics: Sequence[Mapping[str, float]], pictures: Pictures
) -> None:
    """Draw training.png of the records of metrics.jsonl, in the order of their steps: the loss as
    it is and smoothed, and its loops (layers), dimensions and points."""
    steps = [int(record["step"]) for record in metrics]
    losses = [_finite(record.get("loss")) for record in metrics]
    decay = max(0.0, 1 - _WINDOW / len(losses))
    smooth = [_finite(value) for value in smoothed(numbers(losses), decay).tolist()]
    # What is the same all along needs no panel; loops, or layers, and dimensions always have one.
    rows = {name: [_finite(record.get(name)) for record in metrics] for name in _STAGE}
    shown = [name for name in _STAGE if name != "points" or len(set(rows[name])) > 1]
    figure = pictures.figure(6.4, 3.0 + 0.7 * len(shown))
    top, *below = figure.subplots(
        1 + len(shown), sharex=True, height_ratios=[4, *[1] * len(shown)], squeeze=False
    )[:, 0]
    style = style_of(result.get("style", result["family"]))
    marker = "o" if len(steps) == 1 else None
    top.plot(steps, numbers(losses), color=style["color"], linewidth=0.6, alpha=0.4)
    top.plot(steps, numbers(smooth), color=style["color"], marker=marker)
    top.set_ylabel("loss")
    positive = [loss for loss in losses if loss is not None and loss > 0]
    if len(positive) == len(losses) and max(positive) > 4 * min(positive):
        top.set_yscale("log")
    for axes, name in zip(below, shown, strict=True):
        axes.plot(steps, numbers(rows[name]), color="black", linewidth=1, drawstyle="steps-post")
        axes.set_ylabel(f"{unit(result['family'])}s" if name == "loops" else name)
        highest = max(numbers(rows[name]))
        axes.set_ylim(0, 1.25 * highest if math.isfinite(highest) else None)
        axes.set_yticks([0, highest] if math.isfinite(highest) else [0])
    figure.align_ylabels()
    (below[-1] if below else top).set_xlabel("step")
    task = result["task"].replace("_", " ")
    text = f"training of {result['family']} on {task}, d = {result['dims']}; thick: smoothed"
    pictures.title(figure, text, result.get("remarks", []))
    curves: dict[str, Curve] = {
        "loss": {"raw": losses, "smoothed": smooth},
        "stage": {name: rows[name] for name in _STAGE},
    }
    pictures.save(figure, "training", "step", steps, curves)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(np.float64(value)) else float(value)
