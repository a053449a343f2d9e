"""The results of a language model as tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..bootstrap import Band
from ..tables import Part, Table
from .results import LanguageResult


def language_tables(result: LanguageResult, b: int) -> list[Part]:
    """Bits per byte of each text by loop, its perplexities at b loops, and the accuracy of each
    file of questions."""
    texts, questions = result["texts"], result["questions"]
    loops = shown_loops(next(iter(texts.values()))["loop"], b)
    head = ["bits per byte, loop", *map(str, loops), "90 % at b", "perplexity: token", "word"]
    running = any("running_perplexity" in text for text in texts.values())
    head += ["running"] if running else []
    rows = []
    for name, text in texts.items():
        rows.append(
            [
                name.replace("_", "-"),
                *_at(text["bits_per_byte"], loops),
                _span(text["bits_per_byte"], b),
                *_at(text["perplexity"], [b]),
                *_at(text["word_perplexity"], [b]),
                *(_at(text["running_perplexity"], [b]) if "running_perplexity" in text else []),
                *([""] if running and "running_perplexity" not in text else []),
            ]
        )
        for label, bits in text.get("solvers", {}).items():  # they do not loop: beside b
            cells = ["".join(_at(bits, [1])) if loop == b else "" for loop in loops]
            rows.append([f"  {label}", *cells, _span(bits, 1)])
    sizes = ", ".join(f"{name.replace('_', '-')} {text['bytes']:,}" for name, text in texts.items())
    size = result["size"]
    parts: list[Part] = [
        Table(head, rows),
        f"bytes read: {sizes}"
        + ("; running: blocks without start tokens, as arXiv 2605.18797's code" if running else ""),
        f"{size['backbone']:,} parameters, {size['embedding']:,} in embedding and head; "
        f"{size['flops']:.3g} FLOPs a token at the end of training, "
        f"{size['flops_of_one_loop']:.3g} where "
        "loops are not counted",
    ]
    if questions:
        head = ["accuracy, loop", *map(str, loops), "90 % at b", "chance", "centred", "questions"]
        rows = [
            [
                f"{name.removesuffix('.gz').removesuffix('.jsonl')} ({file['kind']})",
                *_at(file["accuracy"], loops),
                _span(file["accuracy"], b),
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
    values = [curve["mean"][loop - 1] for loop in loops]
    return ["" if value is None else f"{value:.4g}" for value in values]


def _span(curve: Band, loop: int) -> str:
    low, high = curve["low"][loop - 1], curve["high"][loop - 1]
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"
