"""The results of a probing as text for the terminal."""

from __future__ import annotations

from reloop.conf.schema import TableFormat
from reloop.evaluation.bootstrap import numbers
from reloop.evaluation.results import unit
from reloop.evaluation.tables import Part, Table, document

from .pictures import error_label
from .published import Published
from .results import Learning, ProbedTarget, Probing

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
