"""CORE of a bundle made by hand: one question of each kind against answering it alone, the centred
mean, and wrong bundles."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Generator

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.core import core
from looplab.evaluation.text.language_model import LanguageModel
from looplab.models import Model, ModelSpec
from looplab.show.core_table import core_table
from looplab.tasks import Prompts
from looplab.tasks.language.tokens import Bytes

_LOOPS = 3
_CHOICES: list[dict[str, Any]] = [
    {"query": "The sky is", "choices": ["blue.", "black!", "bl"], "gold": 0},
    {"query": "Grass is", "choices": ["green", "red", "gold"], "gold": 0},
    {"query": "Ten times ten is", "choices": ["1", "10", "100"], "gold": 2},
    {"query": "Snow\u2028is", "choices": ["white", "black", "hot"], "gold": 0},
]
_SCHEMAS: list[dict[str, Any]] = [
    {"context_options": ["Ann left as Ann", "Ann left as Bob"], "continuation": "ran.", "gold": 1},
    {"context_options": ["Bob fell; Bob", "Bob fell; Ann"], "continuation": "was hurt.", "gold": 0},
]
_TEXTS: list[dict[str, Any]] = [
    {"context": "She said good ", "continuation": "bye"},
    {"context": " a", "continuation": "\x00"},
]
_KINDS = {"multiple_choice": _CHOICES, "schema": _SCHEMAS, "language_modeling": _TEXTS}
_DELIMITERS = {"multiple_choice": "\nAnswer: ", "schema": " ", "language_modeling": " "}


def _bundle(folder: Path, shots: int = 0, **other: Any) -> Path:
    """One task of each kind; `other` are other questions."""
    (folder / "eval_data" / "some").mkdir(parents=True)
    entries, lines = [], ["Eval Task,Task Category,Random baseline"]
    for kind, questions in (_KINDS | other).items():
        uri = f"some/{kind}.jsonl"
        text = "\n".join(map(json.dumps, questions)) + "\n"
        (folder / "eval_data" / uri).write_text(text, encoding="utf-8")
        entry = {"label": f"our_{kind}", "icl_task_type": kind, "dataset_uri": uri}
        entry |= {"num_fewshot": [shots], "continuation_delimiter": _DELIMITERS[kind]}
        entries.append({key: each for key, each in entry.items() if each != " "})
        lines.append(f'our_{kind},"a, b",{25 if kind == "multiple_choice" else 0}')
    (folder / "core.yaml").write_text(yaml.safe_dump({"icl_tasks": entries}))
    (folder / "eval_meta_data.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def model() -> LanguageModel:
    spec = ModelSpec(
        dims=1, vocabulary=257, n_embd=16, n_head=2, n_positions=256, block="llama", head_std=1.0
    )
    return LanguageModel(Model(spec, Generator().manual_seed(3)).eval(), Bytes(), _LOOPS)


def _answer(model: LanguageModel, text: str, judged: int) -> tuple[float, bool]:
    """The mean nats of the last `judged` bytes, and whether each is the likeliest."""
    row = torch.tensor([[256, *text.encode()]])
    with torch.no_grad():
        logits = model.model(Prompts(row, row), _LOOPS)[-1, 0, -judged - 1 : -1]
    ends = row[0, -judged:]
    nats = -logits.log_softmax(-1)[torch.arange(judged), ends]
    return float(nats.mean()), bool((logits.argmax(-1) == ends).all())


def _by_hand(model: LanguageModel, kind: str, question: dict[str, Any], before: str) -> bool:
    """Whether a question after these examples is answered rightly."""
    between = _DELIMITERS[kind]
    if kind == "language_modeling":
        end = between + question["continuation"]  # the space is predicted, too
        text = before + question["context"].strip() + end
        return _answer(model, text, len(end))[1]
    if kind == "schema":
        end = question["continuation"]
        texts = [before + option + between + end for option in question["context_options"]]
        # All options end alike before it, too.
        backwards = zip(*(text[::-1] for text in texts), strict=False)
        alike = next(place for place, each in enumerate(backwards) if len(set(each)) > 1)
        nats = [_answer(model, text, alike)[0] for text in texts]
    else:
        choices = question["choices"]
        forwards = zip(*choices, strict=False)
        same = [place for place, each in enumerate(forwards) if len(set(each)) > 1]
        # Where one choice begins another, something of it is judged.
        begin = same[0] if same else min(map(len, choices)) - 1
        start = before + question["query"] + between
        nats = [_answer(model, start + choice, len(choice) - begin)[0] for choice in choices]
    return int(np.argmin(nats)) == question["gold"]


def _solved(kind: str, question: dict[str, Any]) -> str:
    if kind == "multiple_choice":
        parts = question["query"], question["choices"][question["gold"]]
    elif kind == "schema":
        parts = question["context_options"][question["gold"]], question["continuation"]
    else:
        parts = question["context"].strip(), question["continuation"]
    return _DELIMITERS[kind].join(parts) + "\n\n"


@pytest.mark.parametrize(("shots", "most"), [(0, None), (1, None), (1, 2)])
def test_answers_are_those_by_hand(
    tmp_path: Path, model: LanguageModel, shots: int, most: int | None
) -> None:
    results, mean = core(model, _bundle(tmp_path, shots), most)
    centred = []
    for kind, questions in _KINDS.items():
        asked: list[dict[str, Any]] = [*questions]
        random.Random(1337).shuffle(asked)
        asked, right = asked[:most], []
        for index, question in enumerate(asked):
            others = [place for place in range(len(asked)) if place != index]
            drawn = random.Random(1234 + index).sample(others, shots)
            before = "".join(_solved(kind, asked[place]) for place in drawn)
            right.append(_by_hand(model, kind, question, before))
        found, chance = results[f"our_{kind}"], 0.25 if kind == "multiple_choice" else 0
        assert (found.questions, found.cut, found.chance) == (len(asked), 0, chance)
        assert found.accuracy == np.mean(right)
        assert found.centred.low <= found.centred.mean <= found.centred.high
        centred.append((np.mean(right) - chance) / (1 - chance))
        assert float(found.centred.mean) == pytest.approx(centred[-1])
    assert float(mean.mean) == pytest.approx(np.mean(centred))
    assert mean.low <= mean.mean <= mean.high
    assert core_table(results, mean).splitlines()[4].startswith("CORE")


def test_some_are_right_and_some_wrong(tmp_path: Path, model: LanguageModel) -> None:
    """So that agreement says something."""
    signs = range(33, 127)
    rows = torch.tensor([[256, first, second] for first in signs for second in signs])
    with torch.no_grad():
        ends = model.model(Prompts(rows, rows), _LOOPS)[-1, :, -1].argmax(-1)
    row, end = next(pair for pair in zip(rows, ends, strict=True) if int(pair[1]) in signs)
    likely = {"context": bytes(row[1:].tolist()).decode(), "continuation": chr(int(end))}
    bundle = _bundle(tmp_path, language_modeling=[likely, *_TEXTS])
    entries = yaml.safe_load((bundle / "core.yaml").read_text())
    entries["icl_tasks"][-1]["continuation_delimiter"] = ""
    (bundle / "core.yaml").write_text(yaml.safe_dump(entries))
    results, _ = core(model, bundle)
    assert results["our_language_modeling"].accuracy == pytest.approx(1 / 3)
    assert 0 < results["our_multiple_choice"].accuracy + results["our_schema"].accuracy < 2


def test_long_texts_lose_their_beginning(tmp_path: Path, model: LanguageModel) -> None:
    long = {"context": "a b " * 200, "continuation": "c"}
    results, mean = core(model, _bundle(tmp_path, language_modeling=[long]))
    assert results["our_language_modeling"].cut == 1
    assert "cut: texts longer" in core_table(results, mean)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("core.yaml", "tasks: []", "has no 'icl_tasks'"),
        ("eval_meta_data.csv", "Eval Task,Random baseline\n", "has no 'our_multiple_choice'"),
        ("eval_data/some/schema.jsonl", "", "has no question"),
        ("eval_data/some/schema.jsonl", '{"context": "a"}', "has no 'context_options'"),
    ],
)
def test_a_wrong_bundle_is_named(
    tmp_path: Path, model: LanguageModel, file: str, text: str, message: str
) -> None:
    (_bundle(tmp_path) / file).write_text(text)
    with pytest.raises(ConfigError, match=f"bundle .*{message}") as error:
        core(model, tmp_path)
    assert str(tmp_path) in str(error.value)
