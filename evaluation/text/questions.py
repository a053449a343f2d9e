"""Questions in JSON lines, and a language model's answers to them.

questions = read_questions(Path("piqa.jsonl"))
arrays = answers(model, asked(questions, shots=0, …), loops=12)
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.models import Model
from looplab.tasks import Prompts
from looplab.tasks.language.documents import read_text
from looplab.tasks.language.tokens import Tokenizer

from ..bootstrap import Interval, bootstrap
from ..kept import Arrays
from .results import Kind, QuestionsResult

_FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "choice": ("query", "choices", "gold"),
    "schema": ("context_options", "continuation", "gold"),
    "cloze": ("context", "continuation"),
}
_ORDER, _SHOTS = 1337, 1234  # seeds of the order of questions, and of each one's examples
_DELIMITER = " "


@dataclass(frozen=True)
class Question:
    """A question with its texts: one for each answer, of which the last part is judged: a choice
    after the common query, the common continuation after an option, or the only continuation."""

    kind: Kind
    befores: tuple[str, ...]
    ends: tuple[str, ...]
    gold: int

    @property
    def solved(self) -> str:
        """Its text with the right answer, as an example before other questions."""
        return self.befores[self.gold] + self.ends[self.gold]


@dataclass(frozen=True)
class Sheet:
    """Questions as rows of tokens: `prompts`, one row for each answer, `judged` [rows, n] where a
    token is judged, and each question's first row, with the end of the last one; `cut` rows were
    too long, and lost their beginning."""

    kind: Kind
    gold: tuple[int, ...]
    prompts: Prompts
    judged: Tensor
    first: tuple[int, ...]
    chance: float
    cut: int


def read_questions(path: Path) -> list[Question]:
    """The questions of a file of JSON lines, all of one kind: `query`, `choices` and `gold`;
    `context_options`, `continuation` and `gold`; or `context` and `continuation`. Raises
    ConfigError, which names the line, for one that is none."""
    found: list[Question] = []
    # Not splitlines: a text in JSON may have other line breaks than the file.
    for number, line in enumerate(read_text(path, "task.eval").split("\n"), 1):
        if line.strip():
            found.append(_question(line, f"{path}, line {number}"))
    if not found:
        raise ConfigError("task.eval", f"has a file without questions: {path}")
    if kinds := {each.kind for each in found} - {found[0].kind}:
        raise ConfigError("task.eval", f"mixes {found[0].kind} and {min(kinds)} in {path}")
    return found


def asked(
    questions: Sequence[Question], tokenizer: Tokenizer, length: int, settings: EvaluationConfig
) -> Sheet:
    """At most `evaluation.questions` of the questions, in an order of their own, each after
    `evaluation.shots` others with their answers, as rows of up to `length` tokens. Of a longer row
    the last tokens are kept, after the start token."""
    order = list(range(len(questions)))
    random.Random(_ORDER).shuffle(order)
    drawn = [questions[index] for index in order][: settings.questions]
    rows: list[list[int]] = []
    spans: list[tuple[int, int]] = []
    first, cut = [0], 0
    for index, question in enumerate(drawn):
        examples = _examples(drawn, index, settings.shots)
        for tokens, begin, end in _rows(question, examples, tokenizer):
            whole, begin, end = [tokenizer.start, *tokens], begin + 1, end + 1
            if (excess := len(whole) - (length + 1)) > 0:  # the last token is only predicted
                cut += 1
                whole = [tokenizer.start, *whole[1 + excess :]]
                begin, end = max(begin - excess, 1), end - excess
            rows.append(whole)
            spans.append((begin, end))
        first.append(len(rows))
    longest = max(map(len, rows)) - 1
    padded = torch.full((len(rows), longest + 1), tokenizer.start)
    judged = torch.zeros(len(rows), longest, dtype=torch.bool)
    for row, (tokens, (begin, end)) in enumerate(zip(rows, spans, strict=True)):
        padded[row, : len(tokens)] = torch.tensor(tokens)
        judged[row, begin - 1 : end - 1] = True
    kind = drawn[0].kind
    chance = 0.0 if kind == "cloze" else float(np.mean([1 / len(q.ends) for q in drawn]))
    gold = tuple(question.gold for question in drawn)
    prompts = Prompts(padded[:, :-1], padded[:, 1:])
    return Sheet(kind, gold, prompts, judged, tuple(first), chance, cut)


def judge(model: Model, prompts: Prompts, judged: Tensor, loops: int) -> Arrays:
    """`nats` [rows, loops], the mean over the judged tokens; and `exact`, 1 where the likeliest
    token is the right one at all of them."""
    device = next(model.parameters()).device
    batch, mask = prompts.to(device), judged.to(device)
    count = mask.sum(1).clamp(min=1)
    results: dict[str, list[Tensor]] = {"nats": [], "exact": []}
    for loop, (_, logits) in enumerate(model.unroll(batch, loops)):
        if not loop:
            continue
        nats = F.cross_entropy(logits.flatten(0, 1), batch.ys.flatten(), reduction="none")
        results["nats"].append((nats.view_as(batch.ys) * mask).sum(1) / count)
        right = (logits.argmax(-1) == batch.ys) | ~mask
        results["exact"].append(right.all(1).float())
    return {name: torch.stack(values, dim=1).cpu().numpy() for name, values in results.items()}


def questions_result(sheet: Sheet, arrays: Arrays, settings: EvaluationConfig) -> QuestionsResult:
    """Accuracy by loop: the answer of the least mean nats is the right one; of a cloze all tokens
    are the likeliest."""
    if sheet.kind == "cloze":
        right = arrays["exact"].astype(np.float64)
    else:
        right = np.stack(
            [
                arrays["nats"][begin:end].argmin(0) == gold
                for begin, end, gold in zip(
                    sheet.first[:-1], sheet.first[1:], sheet.gold, strict=True
                )
            ]
        ).astype(np.float64)
    accuracy = bootstrap(right, settings.resamples, settings.seed)
    chance = sheet.chance
    centred = Interval(*((values - chance) / (1 - chance) for values in accuracy))
    return {
        "kind": sheet.kind,
        "questions": len(sheet.gold),
        "shots": settings.shots,
        "cut": sheet.cut,
        "chance": chance,
        "loop": list(range(1, right.shape[1] + 1)),
        "accuracy": accuracy.to_json(),
        "centred": centred.to_json(),
    }


def _question(line: str, where: str) -> Question:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError("task.eval", f"is no JSON: {where}: {error.msg}") from None
    if not isinstance(values, dict):
        raise ConfigError("task.eval", f"has no object: {where}")
    for kind, fields in _FIELDS.items():
        if fields[0] in values:
            if missing := [field for field in fields if field not in values]:
                raise ConfigError("task.eval", f"has no {missing[0]!r}: {where}")
            return _checked(kind, values, where)
    expected = " or ".join(repr(fields[0]) for fields in _FIELDS.values())
    raise ConfigError("task.eval", f"has no {expected}: {where}")


def _checked(kind: Kind, values: Mapping[str, Any], where: str) -> Question:
    parts = [values[field] for field in _FIELDS[kind][:2]]
    many = {"choice": 1, "schema": 0}.get(kind)
    for index, part in enumerate(parts):
        items = part if index == many and isinstance(part, list) else [part]
        if not items or not all(isinstance(item, str) and item for item in items):
            field = _FIELDS[kind][index]
            raise ConfigError("task.eval", f"has no text as {field!r}: {where}")
    befores = parts[0] if kind == "schema" else [parts[0]] * (len(parts[1]) if many else 1)
    ends = parts[1] if kind == "choice" else [parts[1]] * len(befores)
    gold = values.get("gold", 0)
    if not (isinstance(gold, int) and 0 <= gold < len(ends)):
        raise ConfigError("task.eval", f"has no answer number {gold!r} as 'gold': {where}")
    befores = [_delimited(before) for before in befores]
    return Question(kind, tuple(befores), tuple(end.lstrip() for end in ends), gold)


def _delimited(before: str) -> str:
    """The text before an answer, with one space at its end, or its own line break."""
    stripped = before.rstrip(" ")
    return stripped if stripped.endswith("\n") else stripped + _DELIMITER


def _examples(questions: Sequence[Question], index: int, shots: int) -> str:
    """The solved questions before question `index`."""
    others = [i for i in range(len(questions)) if i != index]
    chosen = random.Random(_SHOTS + index).sample(others, min(shots, len(others)))
    return "".join(f"{questions[i].solved}\n\n" for i in chosen)


def _rows(
    question: Question, examples: str, tokenizer: Tokenizer
) -> list[tuple[list[int], int, int]]:
    """The tokens of each answer's text, and from where to where they are judged: after what all
    choices share, from where all options end alike, or after the context of a cloze."""
    texts = [
        tokenizer.encode(examples + before + end).tolist()
        for before, end in zip(question.befores, question.ends, strict=True)
    ]
    if question.kind == "choice":
        # One choice may begin another: something of each is judged, from the same place on.
        begin = min(_shared(texts), min(map(len, texts)) - 1)
        return [(text, begin, len(text)) for text in texts]
    if question.kind == "schema":
        alike = max(_shared([text[::-1] for text in texts]), 1)
        return [(text, len(text) - alike, len(text)) for text in texts]
    before = tokenizer.encode(examples + question.befores[0].rstrip(" ")).tolist()
    begin = _shared([texts[0], before])
    return [(texts[0], min(begin, len(texts[0]) - 1), len(texts[0]))]


def _shared(rows: Sequence[Sequence[int]]) -> int:
    """The number of tokens that all rows begin with alike."""
    columns = zip(*rows, strict=False)
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, columns))
