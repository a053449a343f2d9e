"""The results of a probing as text for the terminal and as pictures: errors by layer with the
control and published ones (if any), and 1 − R² by context length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looplab.conf.schema import FigureSettings, TableFormat
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.figures import (
    AnyCurve,
    Pictures,
    band,
    mark_loops,
    name_curves,
    note_level,
    whole_numbers,
)
from looplab.evaluation.results import unit
from looplab.evaluation.style import style_of, style_of_number
from looplab.evaluation.tables import Part, Table, document

from .protocols import PROTOCOLS
from .results import Learning, ProbedTarget, Probing, Published

_FEW = 4  # lengths, of which a single one may well be half of a mean
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
    lengths = target["lengths"]
    indices = sorted({0, len(lengths) // 4, len(lengths) // 2, len(lengths) - 1})
    published = [target["published"]] if "published" in target else []
    head = [
        *(axis, "error", "90 %", "over seeds", "linear", *["published"] * len(published)),
        *(f"1-R², i={lengths[index]}" for index in indices),
    ]
    rows = []
    for layer, mean in enumerate(target["error"]["mean"]):
        low, high = target["error"]["low"][layer], target["error"]["high"][layer]
        unexplained = target["unexplained"][layer]
        rows.append(
            [
                *(str(layer), _text(mean), f"{_text(low)} to {_text(high)}"),
                *(_text(target["seed_spread"][layer]), _text(target["linear"]["mean"][layer])),
                *(_text(entry["mean"][layer]) for entry in published),
                *(_text(unexplained[index]) for index in indices),
            ]
        )
    what = f"{error_label(result, name)}: mean over lengths {lengths[0]} to {lengths[-1]}"
    lines: list[Part] = [what, Table(head, rows)]
    if "control" in target:
        least = target["control_least"]
        lines.append(
            f"control (trained with w = 1): {_text(least['mean'])} at its best, {axis} "
            f"{least['layer']} ({_text(least['low'])} to {_text(least['high'])}); "
            f"{_minus_control(target, axis)}"
        )
    lines += _one_length(target)
    lines += _still_learning(target["learning"])
    lines += [_origin(entry) for entry in published]
    return lines


def _minus_control(target: ProbedTarget, axis: str) -> str:
    """The probes' least error minus the control's, paired by prompt."""
    gap = target["minus_control"]
    best = int(numbers(gap["mean"]).argmin())
    mean, low, high = (_text(gap[part][best]) for part in ("mean", "low", "high"))
    return f"the probes' best, {axis} {best}, less that: {mean} ({low} to {high})"


def _one_length(target: ProbedTarget) -> list[str]:
    """A warning if one length makes up most of the mean over lengths, as w_OLS of as many noisy
    pairs as dimensions does: its variance is infinite there."""
    variance = target["variance"]
    largest = max(variance)
    if len(variance) < _FEW or 2 * largest <= sum(variance):
        return []
    length = target["lengths"][variance.index(largest)]
    return [
        f"most of these means is length {length}'s, where the target itself has the variance "
        f"{_text(largest)}: compare 1-R² instead"
    ]


def _still_learning(learning: Learning) -> list[str]:
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


def _origin(entry: Published) -> str:
    """The source of published errors, and how they were measured."""
    return (
        f"published: {entry['label']}, after {entry['training_steps']:,} steps; probes after "
        f"{entry['steps']:,} on batches of {entry['prompts']} prompts; {entry['rounding']}; "
        f"{entry['source']}"
    )


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def draw_probing(
    result: Probing, folder: Path, settings: FigureSettings | None = None
) -> list[Path]:
    """Draw `<target>_by_layer` and `<target>_by_length` into `folder`, for each target; returns
    the files."""
    with Pictures(folder, settings) as pictures:
        for name, target in result["targets"].items():
            _by_layer(result, name, pictures)
            _by_length(result, name, target, pictures)
    return pictures.files


def error_label(result: Probing, name: str) -> str:
    """An axis label for the errors of a target: their divisors and the target's label."""
    protocol = PROTOCOLS[result["settings"]["protocol"]]
    error = "mean squared error" + " / d" * protocol.over_dims
    over_points = " / n" * (name in protocol.over_points)
    return f"{error} of {result['targets'][name]['label']}{over_points}"


def _by_layer(result: Probing, name: str, pictures: Pictures) -> None:
    """The paper's Figure 8 and the linear probes: mean over lengths."""
    target = result["targets"][name]
    figure = pictures.figure()
    axes = figure.subplots()
    layers = list(range(len(target["error"]["mean"])))
    curves: dict[str, AnyCurve] = {"probe": target["error"], "linear": target["linear"]}
    band(axes, layers, target["error"], "probe: 2-layer MLP", style_of("probe"))
    band(axes, layers, target["linear"], "linear probe", style_of("linear_probe"))
    if "control" in target:
        least = target["control_least"]
        axes.axhline(least["mean"], linewidth=1.2, label="control", **style_of("control"))
        axes.axhspan(least["low"], least["high"], color="black", alpha=0.1, linewidth=0)
        curves["control"] = target["control"]
    if "published" in target:
        means = target["published"]["mean"]
        label = f"published:\n{target['published']['label']}"
        axes.plot(layers, numbers(means), label=label, **style_of("published"))
        curves["published"] = {"mean": means}
    note_level(axes, float(np.mean(target["variance"])), "knowing nothing")
    if result["family"] != "standard":
        mark_loops(axes, result["b"], color="grey", linestyle=":")
    axes.set_ylabel(error_label(result, name))
    axis = unit(result["family"])
    _finish(figure, axes, result, f"{axis} (0: the read-in)", pictures)
    pictures.save(figure, f"{name}_by_layer", axis, layers, curves)


def _by_length(result: Probing, name: str, target: ProbedTarget, pictures: Pictures) -> None:
    """1 − R² of some layers. (Errors would not do: the variance of XᵀY grows with the length.)"""
    figure = pictures.figure()
    axes = figure.subplots()
    layers = len(target["unexplained"])
    selected_layers = sorted({0, 1, layers // 4, layers // 2, layers - 1})
    curves = {
        f"{unit(result['family'])} {layer}": _unexplained(target, layer)
        for layer in selected_layers
    }
    for layer, (label, curve) in zip(selected_layers, curves.items(), strict=True):
        band(axes, target["lengths"], curve, label, style_of_number(layer))
    note_level(axes, 1, "knowing nothing")
    axes.set_ylabel(f"1 − R² of {target['label']}")
    _finish(figure, axes, result, "context length i (pairs)", pictures)
    pictures.save(figure, f"{name}_by_length", "length", target["lengths"], curves)


def _unexplained(target: ProbedTarget, layer: int) -> AnyCurve:
    """1 − R² of a layer by length, with its interval; None if the target does not vary."""
    valid = [value is not None for value in target["unexplained"][layer]]
    return {
        part: [
            value / variance if is_valid else None
            for value, variance, is_valid in zip(
                target["by_length"][part][layer], target["variance"], valid, strict=True
            )
        ]
        for part in ("mean", "low", "high")
    }


def _finish(figure: Figure, axes: Axes, result: Probing, axis: str, pictures: Pictures) -> None:
    axes.set_xlabel(axis)
    axes.set_ylim(0, 1.06 * axes.get_ylim()[1])  # room for the names of lines
    whole_numbers(axes)
    task = result["task"].replace("_", " ")
    text = (
        f"{result['family']} on {task}, d = {result['dims']}, "
        f"{result['settings']['prompts']} prompts, 90 % bands"
    )
    pictures.title(figure, text, result.get("remarks", []))
    name_curves(figure)
