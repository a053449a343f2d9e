"""The error of each recipe against processor seconds and against FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reloop.evaluation.figures import Curve, Pictures, name_curves, note_level, padded
from reloop.evaluation.remarks import shared
from reloop.evaluation.style import styles_of

from .raced import Point
from .report import Row
from .settings import QualitySettings
from .targets import Target

_AXES = {
    "cpu_seconds": ("processor seconds of training", "error_by_cpu_seconds"),
    "flops": ("FLOPs of training", "error_by_flops"),
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
    # A recipe's variants are named after it.
    styles = styles_of([row.label.partition(" ")[0] for row in rows])
    title = f"{settings.task}, scale={settings.scale}, seeds: {settings.seeds}"
    if words:
        title += "\nother settings than the recipe's: time_to_quality.json"
    remarks = shared({row.label: row.remarks() for row in rows})
    with Pictures(folder) as pictures:
        for name, (label, file) in _AXES.items():
            figure = pictures.figure()
            axes = figure.subplots()
            curves: dict[str, Curve] = {}
            for row, style in zip(rows, styles, strict=True):
                trainings = row.points()
                for points in trainings:
                    x = [getattr(point, name) for point in points]
                    errors = [point.error for point in points]
                    axes.plot(x, errors, linewidth=0.6, alpha=0.6, **style)
                if not trainings:
                    continue
                x, mean = _mean(trainings, name)
                axes.plot(x, mean, label=row.label, **style)
                curves[row.label] = {name: x, "error": mean}
            axes.set_xlabel(label)
            axes.set_ylabel(f"error at k = {', '.join(map(str, target.k))}")
            axes.set_yscale("log")
            note_level(axes, target.error, "target")
            pictures.title(figure, title, remarks)
            name_curves(figure)
            longest = max((len(curve[name]) for curve in curves.values()), default=0)
            columns = {key: padded(curve, longest) for key, curve in curves.items()}
            pictures.save(figure, file, "measurement", range(1, longest + 1), columns)


def _mean(trainings: Sequence[Sequence[Point]], name: str) -> tuple[list[float], list[float]]:
    """Mean of the axis and of the errors over seeds, measurement by measurement, up to the last
    one that all seeds have."""
    length = min(map(len, trainings))
    x = np.array([[getattr(p, name) for p in points[:length]] for points in trainings])
    errors = np.array([[p.error for p in points[:length]] for points in trainings])
    return x.mean(0).tolist(), errors.mean(0).tolist()
