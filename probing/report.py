"""The results of a probing as text for the terminal and as panels: errors by layer with the control
and published ones (if any), and 1 − R² by context length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Interval, numbers
from looplab.evaluation.panel import Curve, Panel, file_name, padded
from looplab.evaluation.results import unit
from looplab.evaluation.tables import Part, Table, document

from .results import Probing

_PARTS: tuple[Literal["mean"], Literal["low"], Literal["high"]] = ("mean", "low", "high")
_SETTLED = 0.02  # probes whose error falls by no more in a quarter of their training have learned


def table(result: Probing, form: TableFormat = "text") -> str:
    """For each target: the mean error by layer with its interval, the spread over probe seeds, the
    linear probe's, the published and the control's error; 1 − R² at a few lengths; and whether the
    probes were still learning. The remarks on the run come first."""
    parts: list[Part] = [*result.get("remarks", [])]
    for name in result["targets"]:
        parts += [*([""] if parts else []), *_target_table(result, name)]
    return document(parts, form)


def _target_table(result: Probing, name: str) -> list[Part]:
    axis, target = unit(result["family"]), result["targets"][name]
    lengths, error, entry = target["lengths"], target["error"], target.get("published")
    shown = sorted({0, len(lengths) // 4, len(lengths) // 2, len(lengths) - 1})
    ends = zip(_texts(error["low"]), _texts(error["high"]), strict=True)
    columns: dict[str, Sequence[str]] = {
        axis: [str(layer) for layer in range(len(error["mean"]))],
        "error": _texts(error["mean"]),
        "90 %": [f"{low} to {high}" for low, high in ends],
        "over seeds": _texts(target["seed_spread"]),
        "linear": _texts(target["linear"]["mean"]),
        **({"published": _texts(entry["mean"])} if entry else {}),
    }
    for index in shown:
        columns[f"1-R², i={lengths[index]}"] = _texts(row[index] for row in target["unexplained"])
    what = f"{_error_label(result, name)}: mean over lengths {lengths[0]} to {lengths[-1]}"
    lines: list[Part] = [what, Table(list(columns), list(zip(*columns.values(), strict=True)))]
    if "control" in target:
        least, gap = target["control_least"], target["minus_control"]
        best = int(numbers(gap["mean"]).argmin())
        mean, low, high = _texts(gap[part][best] for part in _PARTS)
        at_best, lowest, highest = _texts(least[part] for part in _PARTS)
        lines.append(
            f"control (trained with w = 1): {at_best} at its best, {axis} {least['layer']} "
            f"({lowest} to {highest}); the probes' best, {axis} {best}, less that: {mean} "
            f"({low} to {high})"
        )
    lines += _still_learning(target["learning"])
    if entry:
        lines.append(
            f"published: {entry['label']}, after {entry['training_steps']:,} steps; probes after "
            f"{entry['steps']:,} on batches of {entry['prompts']} prompts; {entry['rounding']}; "
            f"{entry['source']}"
        )
    return lines


def _still_learning(learning: Mapping[str, Any]) -> list[str]:
    """How far the error fell in the last quarter of the training, if its parts make quarters."""
    errors = [sum(by_layer) / len(by_layer) for by_layer in learning["error"]]
    quarter, remainder = divmod(len(errors), 4)
    if remainder:
        return []
    fall = max(0, 1 - sum(errors[-quarter:]) / sum(errors[-2 * quarter : -quarter]))
    advice = "; more steps would tell more" if fall > _SETTLED else ""
    steps = learning["until_step"][-1]
    return [
        f"in the last quarter of {steps:,} steps the error in training fell by {fall:.1%}{advice}"
    ]


def _texts(values: Iterable[float | None]) -> list[str]:
    return ["" if value is None else f"{value:.3g}" for value in values]


def panels(result: Probing) -> list[Panel]:
    """`<target>_by_layer`, with the linear probes, and `<target>_by_length`, for each target."""
    found = []
    for name, target in result["targets"].items():
        errors = by_layer(name, {"probe": [result]})
        linear = Curve.of("linear probe", "linear_probe", target["linear"], name="linear")
        found += [replace(errors, curves=[*errors.curves, linear]), _by_length(result, name)]
    return found


def by_layer(name: str, labels: Mapping[str, Sequence[Probing]]) -> Panel:
    """The errors of a target's probes by layer or loop, mean over lengths (the paper's Figure 8): a
    curve for each label, of its runs that were probed for the target, with the published one and
    the control's least error, a line. The band of a label with several runs covers each one's own
    interval."""
    having = {
        label: probed
        for label, results in labels.items()
        if (probed := [result for result in results if name in result["targets"]])
    }
    every = [result for results in having.values() for result in results]
    target = every[0]["targets"][name]
    length = max(len(result["targets"][name]["error"]["mean"]) for result in every)
    curves = []
    for label, results in having.items():
        targets = [result["targets"][name] for result in results]
        b = None if results[0]["family"] == "standard" else results[0]["b"]
        errors = _over_runs([target["error"] for target in targets], length)
        curves.append(Curve.of(label, results[0]["style"], errors, b=b))
        if "published" in targets[0]:
            printed = f"published: {targets[0]['published']['label']}"
            mean = padded(targets[0]["published"]["mean"], length)
            curves.append(
                Curve(label=printed, kind="published", mean=mean, name=file_name(printed))
            )
        least = [
            {str(part): [target["control_least"][part]] * length for part in _PARTS}
            for target in targets
            if "control" in target
        ]
        if least:
            control = "control" if len(having) == 1 else f"control, {label}"
            curves.append(Curve.of(control, "control", _over_runs(least, length)))
    units = dict.fromkeys(unit(result["family"]) for result in every)
    return Panel(
        f"{name}_by_layer", f"probes of {target['label']}",
        f"{' or '.join(units)} (0: the read-in)", _error_label(every[0], name), range(length),
        curves, limits=(0, None), levels={"knowing nothing": float(np.mean(target["variance"]))},
    )  # fmt: skip


def _over_runs(bands: Sequence[Mapping[str, Any]], length: int) -> Interval:
    """The mean of several runs' means, between the ends of all their intervals."""
    means, lows, highs = (
        np.array([numbers(padded(band[part], length)) for band in bands]) for part in _PARTS
    )
    return Interval(means.mean(0), lows.min(0), highs.max(0))


def _by_length(result: Probing, name: str) -> Panel:
    """1 − R² of some layers. (Errors would not do: the variance of XᵀY grows with the length.)"""
    target, axis = result["targets"][name], unit(result["family"])
    unexplained, last = numbers(target["unexplained"]), len(target["unexplained"]) - 1
    # nan where the target does not vary
    variance = np.where(np.isfinite(unexplained), target["variance"], np.nan)
    ratios = Interval(*(numbers(target["by_length"][part]) / variance for part in _PARTS))
    curves = []
    for layer in sorted({0, 1, (last + 1) // 4, (last + 1) // 2, last}):
        of_layer = Interval(*(part[layer] for part in ratios))
        curves.append(Curve.of(f"{axis} {layer}", result["style"], of_layer, number=layer))
    return Panel(
        f"{name}_by_length", f"what probes of {target['label']} leave unexplained, by {axis}",
        "context length i (pairs)", f"1 − R² of {target['label']}", target["lengths"], curves,
        limits=(0, None), levels={"knowing nothing": 1.0},
    )  # fmt: skip


def _error_label(result: Probing, name: str) -> str:
    """An axis label for the errors of a target: their divisors and the target's label."""
    label = result["targets"][name]["label"]
    if result["settings"]["protocol"] == "paper":
        return f"mean squared error of {label}"
    return f"mean squared error / d of {label}" + " / n" * (name == "gradient")
