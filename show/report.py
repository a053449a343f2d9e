"""An evaluation as tables with sentences, and several runs as one table."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Band, numbers
from looplab.evaluation.comparison import Comparison
from looplab.evaluation.evaluation import Evaluation, ShiftErrors, Texts, TextScores
from looplab.evaluation.results import (
    NATS,
    SQUARED_ERROR,
    in_own_unit,
    normalised_words,
    of_loops,
    unit,
)

from .figures import curves, models, published_curve, run_labels, solvers
from .panel import Curve, Values
from .tables import Cells, Part, Table, document


class Result(dict[str, Any]):
    """The plain dict of evaluation.json or comparison.json, shown as its table of errors."""

    @property
    def parts(self) -> Sequence[Part]:
        """What is shown."""
        if "runs" in self:
            return [_compared(Comparison.read(self))]
        return [error_table(Evaluation.read(self))]

    def __repr__(self) -> str:
        return document(self.parts)

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        frames = []
        for part in self.parts:
            if isinstance(part, Table):
                head, *rows = part.cells()
                frames.append(DataFrame(rows, columns=head).to_html(index=False))
        return "\n".join(frames)


def report(result: Evaluation, form: TableFormat = "text") -> str:
    """A whole evaluation in a few short tables."""
    sections: list[Sequence[Part]] = [result.remarks, [error_table(result)]]
    if result.language:
        sections.append(language_tables(result.language, result.b))
    if result.loops == "auto":
        sections.append([_halting(result)])
    if len(result.by_loop.loop) > 1:
        sections.append([_loops(result)])
    if result.shifts:
        sections.append(_shifts(result))
    sections.append(_published(result))
    parts = list[Part]()
    for section in filter(None, sections):
        parts.append("")
        parts += section
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
    return Table(_head(head, ks), rows)


def comparison_table(result: Comparison, form: TableFormat = "text") -> str:
    """Each run's last and mean error, its difference from the first run's, and the loop at which it
    comes near its least. Language models have bits per byte in place of the last error."""
    error = result.error
    if error == NATS:
        error = f"bits per byte of the held-out text; {NATS}"
    title = f"{error}{normalised_words(result)}, {result.prompts} prompts"
    return document([title, _compared(result), *result.remarks], form)


def _compared(result: Comparison) -> Table:
    """The table of a comparison."""
    is_text = result.error == NATS
    digits = 4 if is_text else 3
    shared = next(iter(result.runs.values())).by_examples  # all runs have the same prompts
    error = "bits per byte" if is_text else f"at k = {shared.k[-1]}"
    average = NATS if is_text else "mean over k"
    labels = run_labels(result)
    rows = Cells()
    for name, run in result.runs.items():
        bands = run.by_examples.bands
        less = ["", ""]
        if rows:
            less = _last(run.minus_first.bits_per_byte or run.minus_first.by_examples)
        row = [labels[name]]
        row += _last(run.bits_per_byte or bands["model"], digits)
        row += less
        row.append(_mean(bands["model"], digits))
        row.append(f"{unit(run.family)} {run.by_loop.near_least.loop}")
        rows.append(row)
    for name, label in result.labels.items():
        band = shared.bands[name]
        if is_text:
            rows.append([label, "", "", "", "", _mean(band, digits)])
        else:
            rows.append([label, *_last(band)])
    head = ["", error, "90 %", "minus first", "90 %, paired", average, "near least"]
    return Table(head, rows, spare=("near least", average, "90 %, paired"))


def handful(result: Evaluation) -> list[int]:
    """A few numbers of examples: none, around d/2, d and 2 d, and the largest; of tokens of a text
    powers of 4."""
    last = result.by_examples.k[-1]
    d = result.dims
    # Where linear functions change: solvers know all of them from d examples on.
    ks = {0, 1, d // 2, d - 1, d, d + d // 2, 2 * d, last}
    if result.language:
        ks = {0, 1, 4, 16, 64, 256, last}
    return sorted(k for k in ks if 0 <= k <= last)


def _halting(result: Evaluation) -> str:
    """Mean error and mean number of loops with halting, beside the error at b."""
    rule = result.record["settings"]
    scale = "norm" if rule["halt_on"] == "state" else "standard deviation"
    bands = result.by_examples.bands
    error = _mean(bands["model"])
    loops = _mean(bands["loops_used"])
    at_b = _mean(bands["model_at_b"])
    return (
        f"early exit once the {rule['halt_on']} changes by at most {rule['tolerance']:g} of its "
        f"{scale}, or at loop {rule['halt_by']}: mean over k {error} after {loops} loops on "
        f"average, {at_b} after all b = {result.b}"
    )


def _loops(result: Evaluation) -> str:
    """The loop at which the error comes near its least, and how far the state still moves at b."""
    by_loop = result.by_loop
    near = by_loop.near_least
    name = unit(result.family)
    moves = _text(by_loop.state_change["mean"][result.b - 1])
    return (
        f"{of_loops(result.error)} first comes within {near.within:.0%} of its least over "
        f"{by_loop.loop[-1]} {name}s at {name} {near.loop} (90 %: {near.low:g} to {near.high:g}); "
        f"over {name} {result.b} its state moves by {moves} of its norm"
    )


def _shifts(result: Evaluation) -> list[Part]:
    """Errors of the model and of a solver on shifted inputs, at a few k: over the variance of y in
    training, and over that on these inputs."""
    shifts = result.shifts.values()
    if result.error != SQUARED_ERROR:
        return [_shift_table(result, "shifted inputs, k", shifts)]
    in_training = "shifted inputs, over the variance of y in training, k"
    on_these = "shifted inputs, over the variance of y there, k"
    first = _shift_table(result, in_training, shifts)
    second = _shift_table(result, on_these, map(in_own_unit, shifts))
    return [first, "", second]


def _shift_table(result: Evaluation, head: str, shifts: Iterable[ShiftErrors]) -> Table:
    ks = handful(result)
    rows = []
    for shift in shifts:
        drawn = models(result, shift.bands) + solvers(shift.labels, shift.bands)
        for curve in drawn:
            row = [f"{shift.label}: {curve.label}"]
            row += [_text(curve.mean[k]) if k < len(shift.k) else "" for k in ks]
            row.append(_text(shift.zero))
            rows.append(row)
    heads = _head(head, ks)
    heads.append("zero")
    return Table(heads, rows)


def _published(result: Evaluation) -> list[Part]:
    """The published curves for this task and model, each under ours; and the number of loops at
    which this model is published."""
    ks = handful(result)
    ours = {curve.name: curve for curve in curves(result)}
    # There is no further curve where the evaluation reads the model at b itself.
    ours.setdefault("model", ours["model_at_b"])
    rows = Cells()
    notes: dict[str, None] = {}  # each once, in order
    for entry in result.published:
        if entry["name"] not in ours:
            continue
        model_curve = ours[entry["name"]]
        printed = published_curve(entry)
        rows += _with_interval(model_curve.label, model_curve, ks)
        rows += _with_interval(f"  {printed.label}", printed, ks)
        protocol = f"{entry['prompts']} prompts, models after {entry['training_steps']:,} steps"
        notes[f"{entry['source']}: {protocol}"] = None
    parts = list[Part]()
    if rows:
        parts.append(Table(_head("beside the published, k", ks), rows))
        parts += notes
    for loops in result.published_loops:
        if loops != result.loops:
            parts.append(f"this model is published at {loops} loops: evaluation.loops={loops}")
    return parts


def _with_interval(label: str, curve: Curve, ks: Sequence[int]) -> Cells:
    """A mean and, under it, the ends of its 90 % interval if there is one."""
    rows = [_row(label, curve.mean, ks)]
    if curve.low:
        rows.append(_row("    low, 90 %", curve.low, ks))
    if curve.high:
        rows.append(_row("    high, 90 %", curve.high, ks))
    return rows


def _head(name: str, columns: Sequence[int]) -> list[str]:
    return [name, *map(str, columns)]


def _row(label: str, values: Values, ks: Sequence[int]) -> list[str]:
    return [label, *(_text(values[k]) for k in ks)]


def _last(curve: Band, digits: int = 3) -> list[str]:
    """The last value of a curve, and its interval."""
    return [_text(curve["mean"][-1], digits), _span(curve, -1, digits)]


def _span(curve: Band, index: int, digits: int = 3) -> str:
    """'0.97 to 1.1': the interval at an index; empty where an end is missing."""
    low = _text(curve["low"][index], digits)
    high = _text(curve["high"][index], digits)
    return f"{low} to {high}" if low and high else ""


def _mean(curve: Band, digits: int = 3) -> str:
    return _text(float(np.mean(numbers(curve["mean"]))), digits)


def _text(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def language_tables(result: Texts, b: int) -> list[Part]:
    """Bits per byte of each text at a few loops, and its perplexities at b loops."""
    every_loop = next(iter(result.texts.values())).loop
    loops = sorted({1, max(b // 2, 1), b, 2 * b, every_loop[-1]} & set(every_loop))
    head = _head("bits per byte, loop", loops)
    head += ["90 % at b", "perplexity: token", "word"]
    note = ""
    if any(text.running_perplexity for text in result.texts.values()):
        head.append("running")
        note = "; running: blocks without start tokens, as arXiv 2605.18797's code"
    rows = []
    for name, text in result.texts.items():
        rows.append(_text_row(name, text, loops, b))
        for label, bits in (text.solvers or {}).items():
            row = [f"  {label}"]
            row += [_at(bits, 1) if loop == b else "" for loop in loops]  # they do not loop
            row.append(_span(bits, 0))
            rows.append(row)
    sizes = [f"{name.replace('_', '-')} {text.bytes:,}" for name, text in result.texts.items()]
    size = result.size
    return [
        Table(head, rows),
        f"bytes read: {', '.join(sizes)}{note}",
        f"{size.backbone:,} parameters, {size.embedding:,} in embedding and head; "
        f"{size.flops:.3g} FLOPs a token at the end of training, "
        f"{size.flops_of_one_loop:.3g} where loops are not counted",
    ]


def _text_row(name: str, text: TextScores, loops: Sequence[int], b: int) -> list[str]:
    """A text's bits per byte at these loops, their interval and the perplexities at b loops."""
    row = [name.replace("_", "-")]
    row += [_at(text.bits_per_byte, loop) for loop in loops]
    row.append(_span(text.bits_per_byte, b - 1))
    row.append(_at(text.perplexity, b))
    row.append(_at(text.word_perplexity, b))
    if text.running_perplexity:
        row.append(_at(text.running_perplexity, b))
    return row


def _at(curve: Band, loop: int) -> str:
    return _text(curve["mean"][loop - 1], 4)
