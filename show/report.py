"""An evaluation as tables with sentences, and several runs as one table."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Band, numbers
from looplab.evaluation.comparison import Comparison
from looplab.evaluation.evaluation import Evaluation, Shift, Texts
from looplab.evaluation.results import (
    NATS,
    SQUARED_ERROR,
    in_own_unit,
    normalised_words,
    of_loops,
    unit,
)

from .figures import curves, models, published_curve, run_labels, solvers
from .panel import Curve
from .tables import Part, Table, document


class Result(dict[str, Any]):
    """The plain dict of evaluation.json or comparison.json, shown as its table of errors."""

    @property
    def parts(self) -> Sequence[Part]:
        """What is shown."""
        if "runs" in self:
            return [_compared(Comparison.read(self))[0]]
        return [error_table(Evaluation.read(self))]

    def __repr__(self) -> str:
        return document(self.parts)

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        cells = [part.cells() for part in self.parts if isinstance(part, Table)]
        frames = [DataFrame(rows, columns=head) for head, *rows in cells]
        return "\n".join(frame.to_html(index=False) for frame in frames)


def report(result: Evaluation, form: TableFormat = "text") -> str:
    """A whole evaluation in a few short tables."""
    sections: list[Sequence[Part]] = [
        result.remarks,
        [error_table(result)],
        language_tables(result.language, result.b) if result.language else [],
        [_halting(result)] if result.loops == "auto" else [],
        [_loops(result)] if len(result.by_loop.loop) > 1 else [],
        _shifts(result) if result.shifts else [],
        _published(result),
    ]
    parts = [part for section in sections if section for part in ("", *section)]
    return document(parts[1:], form)


def error_table(result: Evaluation) -> Table:
    """Errors by number of examples, of the model and the solvers, at a few k; and how far the model
    is above the optimum."""
    ks = handful(result)
    rows = [_row(curve.label, curve.mean, ks) for curve in curves(result)]
    if used := result.by_examples.bands.get("loops_used"):
        rows.append(_row("  mean loops used", used["mean"], ks))
    if above := result.above_optimal:
        optimum = result.labels[above.over]
        for curve in models(result, above.bands):
            rows += _with_interval(f"{curve.label}, above {optimum}", curve, ks)
    head = f"{result.error}, tokens before" if result.language else "k"
    return Table([head, *map(str, ks)], rows)


def comparison_table(result: Comparison, form: TableFormat = "text") -> str:
    """Each run's last and mean error, its difference from the first run's, and the loop at which it
    comes near its least. Language models have bits per byte in place of the last error."""
    table, title = _compared(result)
    return document([f"{title}, {result.prompts} prompts", table, *result.remarks], form)


def _compared(result: Comparison) -> tuple[Table, str]:
    """The table of a comparison, and what its errors are."""
    labels, is_text, runs = run_labels(result), result.error == NATS, result.runs
    part, digits = next(iter(runs.values())).by_examples, 4 if is_text else 3
    title, compared, average = result.error, f"at k = {part.k[-1]}", "mean over k"
    if is_text:
        compared, average = "bits per byte", NATS
        title = f"bits per byte of the held-out text; {NATS}"
    title += normalised_words(result)
    rows = []
    for index, (run, entry) in enumerate(runs.items()):
        by_model, less = entry.by_examples.bands["model"], entry.minus_first
        error = entry.bits_per_byte or by_model
        minus_first = _last(less.bits_per_byte or less.by_examples) if index else ["", ""]
        near = f"{unit(entry.family)} {entry.by_loop.near_least.loop}"
        means = _mean(by_model, digits)
        rows.append([labels[run], *_last(error, digits), *minus_first, means, near])
    for name, label in result.labels.items():
        band = part.bands[name]
        cells = [*[""] * 4, _mean(band, digits)] if is_text else _last(band)
        rows.append([label, *cells])
    head = ["", compared, "90 %", "minus first", "90 %, paired", average, "near least"]
    return Table(head, rows, spare=("near least", average, "90 %, paired")), title


def handful(result: Evaluation) -> list[int]:
    """A few numbers of examples: none, around d/2, d and 2 d, and the largest; of tokens of a text
    powers of 4."""
    last, d = result.by_examples.k[-1], result.dims
    chosen = {0, 1, d // 2, d - 1, d, d + d // 2, 2 * d, last}
    if result.language:
        chosen = {0, 1, 4, 16, 64, 256, last}
    return sorted(k for k in chosen if 0 <= k <= last)


def _halting(result: Evaluation) -> str:
    """Mean error and mean number of loops with halting, beside the error at b."""
    rule, bands = result.record["settings"], result.by_examples.bands
    error, loops, at_b = (_mean(bands[name]) for name in ("model", "loops_used", "model_at_b"))
    scale = "norm" if rule["halt_on"] == "state" else "standard deviation"
    return (
        f"early exit once the {rule['halt_on']} changes by at most {rule['tolerance']:g} of its "
        f"{scale}, or at loop {rule['halt_by']}: mean over k {error} after {loops} loops on "
        f"average, {at_b} after all b = {result.b}"
    )


def _loops(result: Evaluation) -> str:
    """The loop at which the error comes near its least."""
    by_loop, name = result.by_loop, unit(result.family)
    near, last, what = by_loop.near_least, by_loop.loop[-1], of_loops(result.error)
    return (
        f"{what} first comes within {near.within:.0%} of its least over "
        f"{last} {name}s at {name} {near.loop} (90 %: {near.low:g} to {near.high:g}); "
        f"over {name} {result.b} its state moves by "
        f"{_text(by_loop.state_change['mean'][result.b - 1])} of its norm"
    )


def _shifts(result: Evaluation) -> list[Part]:
    """Errors of the model and of a solver on shifted inputs, at a few k: over the variance of y in
    training, and over that on these inputs."""
    if result.error != SQUARED_ERROR:
        return [_shift_table(result, "shifted inputs, k", result.shifts.values())]
    in_training = "shifted inputs, over the variance of y in training, k"
    on_these = "shifted inputs, over the variance of y there, k"
    own = _shift_table(result, on_these, map(in_own_unit, result.shifts.values()))
    return [_shift_table(result, in_training, result.shifts.values()), "", own]


def _shift_table(result: Evaluation, head: str, shifts: Iterable[Shift]) -> Table:
    ks, rows = handful(result), []
    for shift in shifts:
        for curve in (*models(result, shift.bands), *solvers(shift.labels, shift.bands)):
            cells = [_text(curve.mean[k]) if k < len(shift.k) else "" for k in ks]
            rows.append([f"{shift.label}: {curve.label}", *cells, _text(shift.zero)])
    return Table([head, *map(str, ks), "zero"], rows)


def _published(result: Evaluation) -> list[Part]:
    """The published curves for this task and model, each under ours; and the number of loops at
    which this model is published."""
    ks, rows = handful(result), list[list[str]]()
    ours = {curve.name: curve for curve in curves(result)}
    ours.setdefault("model", ours["model_at_b"])
    shown = [entry for entry in result.published if entry["name"] in ours]
    for entry in shown:
        own, printed = ours[entry["name"]], published_curve(entry)
        rows += _with_interval(own.label, own, ks)
        rows += _with_interval(f"  {printed.label}", printed, ks)
    notes = dict.fromkeys(
        f"{entry['source']}: {entry['prompts']} prompts, models after {entry['training_steps']:,} "
        "steps"
        for entry in shown
    )
    parts: list[Part] = [Table(["beside the published, k", *map(str, ks)], rows), *notes]
    other_loops = [
        f"this model is published at {loops} loops: evaluation.loops={loops}"
        for loops in result.published_loops
        if loops != result.loops
    ]
    return [*(parts if shown else []), *other_loops]


def _with_interval(label: str, curve: Curve, ks: Sequence[int]) -> list[list[str]]:
    """A mean and, under it, the ends of its 90 % interval if there is one."""
    rows = {label: curve.mean, "    low, 90 %": curve.low, "    high, 90 %": curve.high}
    return [_row(name, values, ks) for name, values in rows.items() if values]


def _row(label: str, values: Sequence[float | None], ks: Sequence[int]) -> list[str]:
    return [label, *(_text(values[k]) for k in ks)]


def _last(curve: Band, digits: int = 3) -> list[str]:
    """The last value of a curve, and its interval."""
    return [_text(curve["mean"][-1], digits), _span(curve, -1, digits)]


def _span(curve: Band, at: int, digits: int = 3) -> str:
    low, high = _text(curve["low"][at], digits), _text(curve["high"][at], digits)
    return f"{low} to {high}" if low and high else ""


def _mean(curve: Band, digits: int = 3) -> str:
    return _text(float(np.mean(numbers(curve["mean"]))), digits)


def _text(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def language_tables(result: Texts, b: int) -> list[Part]:
    """Bits per byte of each text at a few loops, and its perplexities at b loops."""
    texts, size = result.texts, result.size
    loops = next(iter(texts.values())).loop
    loops = sorted({1, max(b // 2, 1), b, 2 * b, loops[-1]} & {*loops})
    running = any(text.running_perplexity for text in texts.values())
    rows = []
    for name, text in texts.items():
        at_b = [text.perplexity, text.word_perplexity]
        at_b += [text.running_perplexity] if text.running_perplexity else []
        bits, perplexities = text.bits_per_byte, [_at(curve, b) for curve in at_b]
        by_loop = [_at(bits, loop) for loop in loops]
        rows.append([name.replace("_", "-"), *by_loop, _span(bits, b - 1), *perplexities])
        for label, bits in (text.solvers or {}).items():  # they do not loop: beside b
            cells = [_at(bits, 1) if loop == b else "" for loop in loops]
            rows.append([f"  {label}", *cells, _span(bits, 0)])
    head = ["bits per byte, loop", *map(str, loops), "90 % at b", "perplexity: token", "word"]
    sizes = ", ".join(f"{name.replace('_', '-')} {text.bytes:,}" for name, text in texts.items())
    protocol = "; running: blocks without start tokens, as arXiv 2605.18797's code"
    return [
        Table([*head, *["running"] * running], rows),
        f"bytes read: {sizes}{protocol * running}",
        f"{size.backbone:,} parameters, {size.embedding:,} in embedding and head; "
        f"{size.flops:.3g} FLOPs a token at the end of training, "
        f"{size.flops_of_one_loop:.3g} where loops are not counted",
    ]


def _at(curve: Band, loop: int) -> str:
    return _text(curve["mean"][loop - 1], 4)
