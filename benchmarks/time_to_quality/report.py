"""Steps, seconds and FLOPs to the target, their ratios and the last errors, as text and JSON; the
error of each recipe against processor seconds and against FLOPs, as pictures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict, get_args

import numpy as np
from scipy import stats

from looplab.evaluation.figures import Curve, Pictures, name_curves, note_level, padded
from looplab.evaluation.remarks import shared
from looplab.evaluation.style import styles_of

from .raced import Point, Result, points_of, reached
from .settings import QualitySettings, Target

Measure = Literal["step", "cpu_seconds", "seconds", "flops"]
_AXES = {
    "cpu_seconds": ("processor seconds of training", "error_by_cpu_seconds"),
    "flops": ("FLOPs of training", "error_by_flops"),
}
Ratio = dict[Literal["ratio", "low", "high"], float]  # without its ends for one seed


class Last(TypedDict, total=False):
    """The errors at the last measurement of each training, as far as they are measured, and the p
    of a t-test against the target."""

    errors: list[float]
    p: float
    at_3b: list[float]
    shifts: dict[str, list[float]]


class Entry(TypedDict):
    """A row of a race as plain values: medians, the ratio to the first row, and the results."""

    label: str
    track: str
    median: dict[Measure, float | None]
    ratio: Ratio | None
    results: list[Result | None]
    last: Last


@dataclass(frozen=True)
class Row:
    """A recipe, or a variant of one: its results seed by seed (`Raced`), None for a failed one."""

    label: str
    track: str
    results: Sequence[Result | None]

    def points(self) -> list[list[Point]]:
        """The measurements of each training that did not fail."""
        return [points_of(result) for result in self.results if result]

    def remarks(self) -> list[str]:
        """The remarks on the code of all trainings, each once."""
        return list(
            dict.fromkeys(
                remark for result in self.results if result for remark in result["remarks"]
            )
        )

    def first(self, target: float) -> list[Point | None]:
        """The first point of each seed at the target; None if it did not reach it, or failed."""
        return [
            None if result is None else reached(points_of(result), target)
            for result in self.results
        ]


def report(
    rows: Sequence[Row], settings: QualitySettings, target: Target, words: Sequence[str] = ()
) -> tuple[str, dict[str, list[Entry]]]:
    """The text and the JSON content of a race; `words` are the settings of run.py that were given
    for all its trainings."""
    k = ", ".join(map(str, target.k))
    lines = [
        f"{settings.task}, scale={settings.scale}, model={settings.model}: error {target.error:g} "
        f"at k = {k}, seeds: {settings.seeds}, threads of a training: {settings.threads}",
        *([f"with {' '.join(words)}"] if words else []),
        "",
        f"{'recipe':40} {'track':>6} {'reached':>8} {'steps':>8} {'CPU s':>8} {'s':>8} {'PFLOP':>8}"
        f"  ratio of {'CPU s' if settings.clock == 'cpu_seconds' else 's'}",
    ]
    entries: list[Entry] = []
    endings = []
    for row in rows:
        first = row.first(target.error)
        medians = {
            name: _median([math.inf if p is None else float(getattr(p, name)) for p in first])
            for name in get_args(Measure)
        }
        ratio = _ratio(rows[0].first(target.error), first, settings.clock)
        lines.append(
            f"{row.label:40} {row.track:>6} {sum(p is not None for p in first)} of {len(first):<3} "
            + f"{_number(medians['step'], ','):>8} {_number(medians['cpu_seconds'], '.0f'):>8} "
            + f"{_number(medians['seconds'], '.0f'):>8} {_number(medians['flops'], '.3g', 1e15):>8}"
            + f"  {_ratio_text(ratio)}"
        )
        text, last = _last(row, target.error, settings.to_end)
        endings.append(f"{row.label}: {text}")
        entries.append(
            {
                "label": row.label,
                "track": row.track,
                "median": medians,
                "ratio": ratio,
                "results": list(row.results),
                "last": last,
            }
        )
    lines += [
        "",
        "Medians over seeds; a seed that did not reach the target counts as the slowest.",
        "",
        *endings,
    ]
    remarks = {row.label: row.remarks() for row in rows}
    return "\n".join([*shared(remarks), *lines]), {"rows": entries}


def _last(row: Row, target: float, to_end: bool) -> tuple[str, Last]:
    """The errors at each training's last measurement, with a t-test against the target."""
    points = [each[-1] for each in row.points()]
    if not points:
        return "every training failed", {}
    errors = [point.error for point in points]
    steps = ", ".join(f"{step:,}" for step in dict.fromkeys(point.step for point in points))
    text = f"last error {_list(errors)} after {steps} steps"
    last: Last = {"errors": errors}
    if to_end and len(errors) > 1:
        p = float(stats.ttest_1samp(errors, target, alternative="less").pvalue)
        last["p"] = p
        mean = statistics.mean(errors)
        text += f", mean {mean:.4f} (under {target:g}: one-sided t-test, p = {p:.2g})"
    results = [result for result in row.results if result]
    if errors_at_3b := [result["at_3b"] for result in results if "at_3b" in result]:
        last["at_3b"] = errors_at_3b
        text += f"; at 3 b {_list(errors_at_3b)}"
    if shift_errors := [result["shifts"] for result in results if "shifts" in result]:
        last["shifts"] = {name: [each[name] for each in shift_errors] for name in shift_errors[0]}
        text += "".join(f"; {name} {_list(values)}" for name, values in last["shifts"].items())
    return text, last


def _median(values: Sequence[float]) -> float | None:
    middle = statistics.median(values)
    return middle if math.isfinite(middle) else None


def _ratio(base: Sequence[Point | None], other: Sequence[Point | None], clock: str) -> Ratio | None:
    """The base's seconds on this clock over another's: the mean of the logarithms over seeds, and
    its 90 % interval (Student's t). None if a seed of either did not reach the target."""
    logs = [
        math.log(getattr(a, clock) / getattr(b, clock))
        for a, b in zip(base, other, strict=True)
        if a is not None and b is not None
    ]
    if not logs or len(logs) < len(base):
        return None
    mean = statistics.mean(logs)
    if len(logs) == 1:
        return {"ratio": math.exp(mean)}
    half = stats.t.ppf(0.95, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    ends = (math.exp(mean - half), math.exp(mean + half))
    return {"ratio": math.exp(mean), "low": ends[0], "high": ends[1]}


def _ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"
    ends = f" ({ratio['low']:.2f} to {ratio['high']:.2f})" if "low" in ratio else ""
    return f"{ratio['ratio']:.2f}{ends}"


def _number(value: float | None, form: str, unit: float = 1.0) -> str:
    return "–" if value is None else format(value if form == "," else value / unit, form)


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


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
