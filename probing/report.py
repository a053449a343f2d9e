"""A probing as text for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(result: Mapping[str, Any]) -> str:
    """For each target: the mean error by layer with its interval, the spread over probe seeds, the
    linear probe's and the control's; and 1 − R² at a handful of lengths."""
    unit = "layer" if result["family"] == "standard" else "loop"
    return "\n\n".join(_of_target(target, unit) for target in result["targets"].values())


def _of_target(target: Mapping[str, Any], unit: str) -> str:
    lengths = target["lengths"]
    shown = sorted({0, len(lengths) // 4, len(lengths) // 2, len(lengths) - 1})
    rows = [
        [
            *(unit, "error", "90 %", "over seeds", "linear"),
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
                *(_text(unexplained[index]) for index in shown),
            ]
        )
    lines = [f"{target['label']}: mean over lengths {lengths[0]} to {lengths[-1]}", *_aligned(rows)]
    if "control" in target:
        least = target["control_least"]
        lines.append(
            f"control (trained with w = 1): {_text(least['mean'])} at its best, {unit} "
            f"{least['layer']} ({_text(least['low'])} to {_text(least['high'])})"
        )
    return "\n".join(lines)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
    return [
        "".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]
