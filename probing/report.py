"""A probing as text for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .pictures import error_label

_FEW = 4  # lengths, among which one may well be half of a mean
_SETTLED = 0.02  # probes whose error falls by no more in a quarter of their training have learned


def table(result: Mapping[str, Any]) -> str:
    """For each target: the mean error by layer with its interval, the spread over probe seeds, the
    linear probe's, the published one where there is any, and the control's; 1 − R² at a handful of
    lengths; and whether the probes were still learning. Above them what is to be known of the
    run."""
    told = "\n".join(result.get("remarks", []))
    return "\n\n".join([*filter(None, [told]), *(_of_target(result, n) for n in result["targets"])])


def _of_target(result: Mapping[str, Any], name: str) -> str:
    unit, target = "layer" if result["family"] == "standard" else "loop", result["targets"][name]
    lengths = target["lengths"]
    shown = sorted({0, len(lengths) // 4, len(lengths) // 2, len(lengths) - 1})
    theirs = [target["published"]] if "published" in target else []
    rows = [
        [
            *(unit, "error", "90 %", "over seeds", "linear", *["published"] * len(theirs)),
            *(f"1-R², i={lengths[index]}" for index in shown),
        ]
    ]
    for layer, mean in enumerate(target["error"]["mean"]):
        low, high = target["error"]["low"][layer], target["error"]["high"][layer]
        unexplained = target["unexplained"][layer]
        rows.append(
            [
                *(str(layer), _text(mean), f"{_text(low)} to {_text(high)}"),
                *(_text(target["seed_spread"][layer]), _text(target["linear"]["mean"][layer])),
                *(_text(entry["mean"][layer]) for entry in theirs),
                *(_text(unexplained[index]) for index in shown),
            ]
        )
    what = f"{error_label(result, name)}: mean over lengths {lengths[0]} to {lengths[-1]}"
    lines = [what, *_aligned(rows)]
    if "control" in target:
        least = target["control_least"]
        lines.append(
            f"control (trained with w = 1): {_text(least['mean'])} at its best, {unit} "
            f"{least['layer']} ({_text(least['low'])} to {_text(least['high'])}); "
            f"{_beside(target, unit)}"
        )
    lines += _one_length(target)
    lines += _still_learning(target["learning"])
    lines += [_origin(entry) for entry in theirs]
    return "\n".join(lines)


def _beside(target: Mapping[str, Any], unit: str) -> str:
    """How far from the control's least error the probes' least is, prompt by prompt."""
    gap = target["minus_control"]
    best = min(range(len(gap["mean"])), key=lambda layer: gap["mean"][layer])
    mean, low, high = (_text(gap[part][best]) for part in ("mean", "low", "high"))
    return f"the probes' best, {unit} {best}, less that: {mean} ({low} to {high})"


def _one_length(target: Mapping[str, Any]) -> list[str]:
    """A warning where the mean over lengths is hardly more than one length's, as that of w_OLS is
    from as many noisy pairs as dimensions: its variance is infinite there."""
    variance = target["variance"]
    most = max(variance)
    if len(variance) < _FEW or 2 * most <= sum(variance):
        return []
    length = target["lengths"][variance.index(most)]
    return [
        f"most of these means is length {length}'s, where the target itself has the variance "
        f"{_text(most)}: compare 1-R² instead"
    ]


def _still_learning(learning: Mapping[str, Any]) -> list[str]:
    """What the last quarter of the training changed, where its parts make quarters."""
    errors = [sum(by_layer) / len(by_layer) for by_layer in learning["error"]]
    quarter, rest = divmod(len(errors), 4)
    if rest:
        return []
    fell = max(0, 1 - sum(errors[-quarter:]) / sum(errors[-2 * quarter : -quarter]))
    more = "; more steps would tell more" if fell > _SETTLED else ""
    steps = learning["until_step"][-1]
    return [
        f"in the last quarter of {steps:,} steps the error in training fell by {fell:.1%}{more}"
    ]


def _origin(entry: Mapping[str, Any]) -> str:
    """Where published errors come from, and what is known of how they were measured."""
    return (
        f"published: {entry['label']}, after {entry['training_steps']:,} steps; probes after "
        f"{entry['steps']:,} on batches of {entry['prompts']} prompts; {entry['rounding']}; "
        f"{entry['source']}"
    )


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
    return [
        "".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]
