"""Steps, seconds and FLOPs to the target, their ratios and the last errors, as text and JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from reloop.evaluation.remarks import shared

from .raced import Point, reached
from .settings import QualitySettings
from .targets import Target

_MEASURES = ("step", "cpu_seconds", "seconds", "flops")


@dataclass(frozen=True)
class Row:
    """A recipe, or a variant of one: its results seed by seed (`Raced`), None for a failed one."""

    label: str
    track: str
    results: Sequence[Mapping[str, Any] | None]

    def points(self) -> list[list[Point]]:
        """The measurements of each training that did not fail."""
        return [
            [Point(**values) for values in result["points"]] for result in self.results if result
        ]

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
            None
            if result is None
            else reached([Point(**values) for values in result["points"]], target)
            for result in self.results
        ]


def report(
    rows: Sequence[Row], settings: QualitySettings, target: Target, words: Sequence[str] = ()
) -> tuple[str, dict[str, Any]]:
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
    content: dict[str, Any] = {"rows": []}
    for row in rows:
        first = row.first(target.error)
        medians = {name: _median([_value(point, name) for point in first]) for name in _MEASURES}
        ratio = _ratio(rows[0].first(target.error), first, settings.clock)
        lines.append(
            f"{row.label:40} {row.track:>6} {sum(p is not None for p in first)} of {len(first):<3} "
            + f"{_number(medians['step'], ','):>8} {_number(medians['cpu_seconds'], '.0f'):>8} "
            + f"{_number(medians['seconds'], '.0f'):>8} {_number(medians['flops'], '.3g', 1e15):>8}"
            + f"  {_ratio_text(ratio)}"
        )
        content["rows"].append(
            {"label": row.label, "track": row.track, "median": medians, "ratio": ratio}
            | {"results": list(row.results)}
        )
    lines += [
        "",
        "Medians over seeds; a seed that did not reach the target counts as the slowest.",
        "",
    ]
    for row, entry in zip(rows, content["rows"], strict=True):
        text, entry["last"] = _last(row, target.error, settings.to_end)
        lines.append(f"{row.label}: {text}")
    remarks = {row.label: row.remarks() for row in rows}
    return "\n".join([*shared(remarks), *lines]), content


def _last(row: Row, target: float, to_end: bool) -> tuple[str, dict[str, Any]]:
    """The errors at each training's last measurement, with a t-test against the target."""
    points = [each[-1] for each in row.points()]
    if not points:
        return "every training failed", {}
    errors = [point.error for point in points]
    steps = ", ".join(f"{step:,}" for step in dict.fromkeys(point.step for point in points))
    text = f"last error {_list(errors)} after {steps} steps"
    last: dict[str, Any] = {"errors": errors}
    if to_end and len(errors) > 1:
        p = float(stats.ttest_1samp(errors, target, alternative="less").pvalue)
        last["p"] = p
        mean = statistics.mean(errors)
        text += f", mean {mean:.4f} (under {target:g}: one-sided t-test, p = {p:.2g})"
    results = [result for result in row.results if result]
    if errors_at_3b := [result["at_3b"] for result in results if "at_3b" in result]:
        last["at_3b"] = errors_at_3b
        text += f"; at 3 b {_list(errors_at_3b)}"
    shift_errors = [result["shifts"] for result in results if "shifts" in result]
    for name in shift_errors[0] if shift_errors else ():
        values = [each[name] for each in shift_errors]
        last.setdefault("shifts", {})[name] = values
        text += f"; {name} {_list(values)}"
    return text, last


def _value(point: Point | None, name: str) -> float:
    return math.inf if point is None else float(getattr(point, name))


def _median(values: Sequence[float]) -> float | None:
    middle = statistics.median(values)
    return middle if math.isfinite(middle) else None


def _ratio(
    base: Sequence[Point | None], other: Sequence[Point | None], clock: str
) -> dict[str, float] | None:
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
    ends = {"low": math.exp(mean - half), "high": math.exp(mean + half)}
    return {"ratio": math.exp(mean)} | ends


def _ratio_text(ratio: Mapping[str, float] | None) -> str:
    if ratio is None:
        return "–"
    ends = f" ({ratio['low']:.2f} to {ratio['high']:.2f})" if "low" in ratio else ""
    return f"{ratio['ratio']:.2f}{ends}"


def _number(value: float | None, form: str, unit: float = 1.0) -> str:
    return "–" if value is None else format(value if form == "," else value / unit, form)


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)
