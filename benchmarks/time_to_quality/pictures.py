"""The error of each recipe against processor seconds and against FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from reloop.evaluation.figures import Curve, line, log_of_few_decades, note_level, save, styled
from reloop.evaluation.remarks import shared

from .raced import Point
from .report import Row
from .settings import QualitySettings
from .targets import Target

_AXES = {
    "cpu_seconds": ("processor seconds of training", "error_by_cpu_seconds.png"),
    "flops": ("FLOPs of training", "error_by_flops.png"),
}


def draw(
    rows: Sequence[Row],
    settings: QualitySettings,
    target: Target,
    words: Sequence[str],
    folder: Path,
) -> None:
    """Write the pictures and the CSVs behind them: a thin line for each seed, a thick one for
    the mean over seeds at each measurement."""
    for name, (label, file) in _AXES.items():
        with styled():
            figure = Figure()
            axes = figure.subplots()
            curves: dict[str, Curve] = {}
            longest: list[int] = []
            for index, row in enumerate(rows):
                trainings = row.points()
                for points in trainings:
                    x = [getattr(point, name) for point in points]
                    errors = [point.error for point in points]
                    axes.plot(x, errors, linewidth=0.6, alpha=0.6, **line(index))
                if not trainings:
                    continue
                x, mean = _mean(trainings, name)
                axes.plot(x, mean, linewidth=1.8, label=row.label, **line(index))
                curves[row.label] = {name: x, "error": mean}
                longest = max(longest, list(range(1, len(x) + 1)), key=len)
            remarks = shared({row.label: row.remarks() for row in rows})
            title = f"{settings.task}, scale={settings.scale}, seeds: {settings.seeds}"
            more = ["other settings than the recipe's: time_to_quality.json"] if words else []
            figure.suptitle("\n".join([title, *more, *remarks]))
            axes.set_xlabel(label)
            axes.set_ylabel(f"error at k = {', '.join(map(str, target.k))}")
            log_of_few_decades(axes)
            note_level(axes, target.error, "target")
            if curves:
                axes.legend()
            padded = {
                label: {
                    part: [*values, *[None] * (len(longest) - len(values))]
                    for part, values in curve.items()
                }
                for label, curve in curves.items()
            }
            save(figure, folder / file, "measurement", longest, padded)


def _mean(trainings: Sequence[Sequence[Point]], name: str) -> tuple[list[float], list[float]]:
    """Mean of the axis and of the errors over seeds, measurement by measurement, up to the last
    one that all seeds have."""
    length = min(map(len, trainings))
    x = np.array([[getattr(p, name) for p in points[:length]] for points in trainings])
    errors = np.array([[p.error for p in points[:length]] for points in trainings])
    return x.mean(0).tolist(), errors.mean(0).tolist()
