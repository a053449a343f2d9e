"""An evaluation as tables with sentences, and several runs as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.conf.schema import TableFormat

from .bootstrap import Band, numbers
from .figures import curves, models, published_curve, run_labels
from .panel import Curve
from .results import NATS, Evaluation, of_loops, unit
from .tables import Part, Table, document
from .text.results import LanguageResult


def report(result: Evaluation, form: TableFormat = "text") -> str:
    """A whole evaluation in a few short tables."""
    others = [f"  {command}" for command in result.get("others", [])]
    sections: list[Sequence[Part]] = [
        result.get("remarks", []),
        [error_table(result)],
        language_tables(result["language"], result["b"]) if "language" in result else [],
        [_halting(result)] if result["loops"] == "auto" else [],
        [_loops(result)] if len(result["by_loop"]["loop"]) > 1 else [],
        [_shifts(result)] if result["shifts"] else [],
        _published(result),
        ["other evaluations of this run:", *others] if others else [],
    ]
    parts = [part for section in sections if section for part in ("", *section)]
    return document(parts[1:], form)


def error_table(result: Evaluation) -> Table:
    """Errors by number of examples, of the model and the solvers, at a few k; and how far the model
    is above the optimum."""
    ks = handful(result)
    rows = [_row(curve.label, curve.mean, ks) for curve in curves(result)]
    if "loops_used" in result["by_examples"]:
        rows.append(_row("  mean loops used", result["by_examples"]["loops_used"]["mean"], ks))
    if "above_optimal" in result:
        above = result["above_optimal"]
        optimum = result["labels"][above["over"]]
        for curve in models(result, above):
            rows += _with_interval(f"{curve.label}, above {optimum}", curve, ks)
    head = f"{result['error']}, tokens before" if "language" in result else "k"
    return Table([head, *map(str, ks)], rows)


def comparison_table(result: Mapping[str, Any], form: TableFormat = "text") -> str:
    """Each run's last and mean error, its difference from the first run's, and the loop at which it
    comes near its least. Language models have bits per byte in place of the last error."""
    labels, is_text = run_labels(result), result["error"] == NATS
    digits = 4 if is_text else 3
    at_last = f"k = {result['k'][-1]}"
    compared, average = f"at {at_last}", "mean over k"
    title = f"{result['error']}, {result['prompts']} prompts"
    if is_text:
        compared, average = "bits per byte", NATS
        title = f"bits per byte of the held-out text; {NATS} over {result['prompts']} prompts of it"
    head = ["", compared, "90 %", "minus first", "90 %, paired", average, "near least"]
    rows = []
    for index, (run, entry) in enumerate(result["runs"].items()):
        error, difference = (
            part.get("bits_per_byte", part["last"]) for part in (entry, entry["minus_first"])
        )
        rows.append(
            [
                labels[run],
                _text(error["mean"][0], digits),
                _span(error, digits),
                _text(difference["mean"][0]) if index else "",
                _span(difference) if index else "",
                _text(entry["mean_over_k"]["mean"][0], digits),
                f"{unit(entry['family'])} {entry['near_least']['loop']}",
            ]
        )
    for name, curve in result["baselines"].items():
        label = result["labels"][name]
        if is_text:
            rows.append([label, *[""] * 4, _text(float(numbers(curve["mean"]).mean()), digits)])
        else:
            rows.append([label, _text(curve["mean"][-1]), _span(curve)])
    halting = [
        f"{labels[run]} is read by early exit; after b = {entry['b']} loops "
        f"{'its mean error' if is_text else f'its error at {at_last}'} is "
        f"{_text(entry['by_loop']['mean'][entry['b'] - 1])}"
        for run, entry in result["runs"].items()
        if entry["loops"] == "auto"
    ]
    return document([title, Table(head, rows), *halting, *result.get("remarks", [])], form)


def handful(result: Evaluation) -> list[int]:
    """A few numbers of examples: none, around d/2, d and 2 d, and the largest; of tokens of a text
    powers of 4."""
    last = result["by_examples"]["k"][-1]
    if "language" in result:
        return sorted(k for k in {0, 1, 4, 16, 64, 256, last} if k <= last)
    d = result["dims"]
    candidates = {0, 1, d // 2, d - 1, d, d + d // 2, 2 * d, last}
    return sorted(k for k in candidates if 0 <= k <= last)


def _halting(result: Evaluation) -> str:
    """Errors and mean number of loops with halting, beside the errors at b."""
    rule = result["settings"]
    halted, used, at_b = (
        numbers(result["by_examples"][name]["mean"])
        for name in ("model", "loops_used", "model_at_b")
    )
    parts = [("mean over k", [part.mean() for part in (halted, used, at_b)])]
    if "language" not in result:
        parts.insert(0, ("the last query's error is", [part[-1] for part in (halted, used, at_b)]))
    texts = [
        f"{name} {_text(error)} after {_text(loops)} loops on average, {_text(full)} after all "
        f"b = {result['b']}"
        for name, (error, loops, full) in parts
    ]
    scale = "norm" if rule["halt_on"] == "state" else "standard deviation"
    return (
        f"early exit once the {rule['halt_on']} changes by at most {rule['tolerance']:g} of its "
        f"{scale}, or at loop {rule['halt_by']}: {'; '.join(texts)}"
    )


def _loops(result: Evaluation) -> str:
    """The loop at which the error comes near its least."""
    by_loop, name = result["by_loop"], unit(result["family"])
    near, last, what = by_loop["near_least"], by_loop["loop"][-1], of_loops(result["error"])
    return (
        f"{what} first comes within {near['within']:.0%} of its least over "
        f"{last} {name}s at {name} {near['loop']} (90 %: {near['low']:g} to {near['high']:g}); "
        f"over {name} {result['b']} its state moves by "
        f"{_text(by_loop['state_change']['mean'][result['b'] - 1])} of its norm"
    )


def _shifts(result: Evaluation) -> Table:
    """Errors of the model and of a solver on shifted inputs, at a few k."""
    ks, rows = handful(result), []
    for shift in result["shifts"].values():
        for curve in curves(result, shift):
            cells = [_text(curve.mean[k]) if k < len(shift["k"]) else "" for k in ks]
            rows.append([f"{shift['label']}: {curve.label}", *cells, _text(shift["zero"])])
    return Table(["shifted inputs, k", *map(str, ks), "zero"], rows)


def _published(result: Evaluation) -> list[Part]:
    """The published curves for this task and model, each under ours; and the number of loops at
    which this model is published."""
    ks, notes = handful(result), dict[str, str]()
    rows: list[list[str]] = []
    ours = {curve.name: curve for curve in curves(result)}
    ours.setdefault("model", ours["model_at_b"])
    for entry in result["published"]:
        if entry["name"] not in ours:
            continue
        for curve in (ours[entry["name"]], published_curve(entry)):
            indent = "  " * (curve.kind == "published")
            rows += _with_interval(f"{indent}{curve.label}", curve, ks)
        notes[entry["source"]] = f"{entry['prompts']} prompts"
        if entry["training_steps"]:
            notes[entry["source"]] += f", after {entry['training_steps']:,} steps"
    parts: list[Part] = []
    if notes:
        head = ["beside the published, k", *map(str, ks)]
        parts = [Table(head, rows), *(f"{source}: {note}" for source, note in notes.items())]
    other_loops = [loops for loops in result["published_loops"] if loops != result["loops"]]
    if other_loops:
        parts.append(
            f"this model is published at {other_loops[0]} loops: evaluation.loops={other_loops[0]}"
        )
    return parts


def _with_interval(label: str, curve: Curve, ks: Sequence[int]) -> list[list[str]]:
    """A mean and, under it, the ends of its 90 % interval if there is one."""
    rows = {label: curve.mean, "    low": curve.low, "    high": curve.high}
    return [_row(name, values, ks) for name, values in rows.items() if values]


def _row(label: str, values: Sequence[float | None], ks: Sequence[int]) -> list[str]:
    return [label, *(_text(values[k]) for k in ks)]


def _span(curve: Band, digits: int = 3) -> str:
    return f"{_text(curve['low'][-1], digits)} to {_text(curve['high'][-1], digits)}"


def _text(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def language_tables(result: LanguageResult, b: int) -> list[Part]:
    """Bits per byte of each text by loop, its perplexities at b loops, and the accuracy of each
    file of questions."""
    texts, questions = result["texts"], result["questions"]
    loops = shown_loops(next(iter(texts.values()))["loop"], b)
    head = ["bits per byte, loop", *map(str, loops), "90 % at b", "perplexity: token", "word"]
    running = any("running_perplexity" in text for text in texts.values())
    head += ["running"] * running
    rows = []
    for name, text in texts.items():
        rows.append(
            [
                name.replace("_", "-"),
                *_at(text["bits_per_byte"], loops),
                _span_at(text["bits_per_byte"], b),
                *_at(text["perplexity"], [b]),
                *_at(text["word_perplexity"], [b]),
                *(_at(text["running_perplexity"], [b]) if "running_perplexity" in text else []),
            ]
        )
        for label, bits in text.get("solvers", {}).items():  # they do not loop: beside b
            cells = ["".join(_at(bits, [1])) if loop == b else "" for loop in loops]
            rows.append([f"  {label}", *cells, _span_at(bits, 1)])
    sizes = ", ".join(f"{name.replace('_', '-')} {text['bytes']:,}" for name, text in texts.items())
    size = result["size"]
    parts: list[Part] = [
        Table(head, rows),
        f"bytes read: {sizes}"
        + ("; running: blocks without start tokens, as arXiv 2605.18797's code" if running else ""),
        f"{size['backbone']:,} parameters, {size['embedding']:,} in embedding and head; "
        f"{size['flops']:.3g} FLOPs a token at the end of training, "
        f"{size['flops_of_one_loop']:.3g} where loops are not counted",
    ]
    if questions:
        head = ["accuracy, loop", *map(str, loops), "90 % at b", "chance", "centred", "questions"]
        rows = [
            [
                f"{name.removesuffix('.gz').removesuffix('.jsonl')} ({file['kind']})",
                *_at(file["accuracy"], loops),
                _span_at(file["accuracy"], b),
                f"{file['chance']:.3g}",
                *_at(file["centred"], [b]),
                str(file["questions"]),
            ]
            for name, file in questions.items()
        ]
        shots = next(iter(questions.values()))["shots"]
        parts += ["", Table(head, rows), f"questions with answers before each: {shots}"]
        if cut := sum(file["cut"] for file in questions.values()):
            parts.append(f"{cut:,} answers are longer than the model's positions: cut at the front")
    return parts


def shown_loops(loops: Sequence[int], b: int) -> list[int]:
    """A few of the loops: 1, half of b, b, twice b, and the last."""
    return sorted({1, max(b // 2, 1), b, 2 * b, loops[-1]} & set(loops))


def _at(curve: Band, loops: Sequence[int]) -> list[str]:
    return [_text(curve["mean"][loop - 1], 4) for loop in loops]


def _span_at(curve: Band, loop: int) -> str:
    low, high = curve["low"][loop - 1], curve["high"][loop - 1]
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"
