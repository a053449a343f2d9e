"""Questions: which tokens are judged, accuracy against answering by hand, and wrong files."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.text.questions import Sheet, asked, judge, questions_result, read_questions
from looplab.models import Model, ModelSpec
from looplab.tasks.language.tokens import Bytes

_CHOICE = {"query": "The sky is", "choices": ["blue.", "black!"], "gold": 0}
_SCHEMA = {"context_options": ["Ann left as Ann", "Ann left as Bob"], "continuation": "was late."}
_CLOZE = {"context": "She said good", "continuation": "bye"}


def _sheet(folder: Path, *lines: dict[str, Any], length: int = 200, **settings: Any) -> Sheet:
    path = folder / "it.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    options = EvaluationConfig(**settings)
    return asked(read_questions(path), Bytes(), length, options)


def _judged(sheet: Sheet) -> list[str]:
    """The text that is judged of each row."""
    return [
        bytes(ys[mask].tolist()).decode()
        for ys, mask in zip(sheet.prompts.ys, sheet.judged, strict=True)
    ]


def test_what_is_judged(tmp_path: Path) -> None:
    assert _judged(_sheet(tmp_path, _CHOICE)) == ["ue.", "ack!"]  # "bl" is common
    assert _judged(_sheet(tmp_path, _SCHEMA | {"gold": 1})) == [" was late."] * 2
    assert _judged(_sheet(tmp_path, _CLOZE)) == [" bye"]
    # Of choices that begin one another all are judged from the same place on.
    nested = {"query": "Ten times ten is", "choices": ["1", "10", "100"], "gold": 2}
    assert _judged(_sheet(tmp_path, nested)) == ["1", "10", "100"]


def test_a_line_ends_where_the_file_ends_it(tmp_path: Path) -> None:
    """JSON may have other line breaks, and half of a surrogate pair, in a text."""
    path = tmp_path / "q.jsonl"
    query = {"query": "one\u2028two\x85three \ud83d", "choices": ["a", "b"], "gold": 1}
    escaped = json.dumps(query)
    lines = [escaped, escaped.replace("\\u2028", "\u2028").replace("\\u0085", "\x85")]
    assert lines[0] != lines[1]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\n")
    first, second = read_questions(path)
    assert first == second
    assert first.befores[0].startswith("one\u2028two\x85three")
    packed = tmp_path / "q.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_questions(packed) == [first, second]
    assert asked([first], Bytes(), 64, EvaluationConfig(shots=0)).cut == 0


def test_examples_come_before(tmp_path: Path) -> None:
    other = {"query": "Grass is", "choices": ["green", "red"], "gold": 0}
    sheet = _sheet(tmp_path, _CHOICE, other, shots=1)
    texts = {bytes(t for t in row.tolist() if t < 256).decode() for row in sheet.prompts.ys}
    assert "Grass is green\n\nThe sky is blue." in texts
    assert "The sky is blue.\n\nGrass is red" in texts


@pytest.mark.parametrize("question", [_CHOICE, _SCHEMA | {"gold": 1}, _CLOZE])
def test_accuracy_is_that_of_answering_by_hand(tmp_path: Path, question: dict[str, Any]) -> None:
    spec = ModelSpec(
        dims=1, vocabulary=257, n_embd=16, n_head=2, n_positions=64, block="llama", head_std=1.0
    )
    model = Model(spec, Generator().manual_seed(3)).eval()
    sheet = _sheet(tmp_path, question)
    arrays = judge(model, sheet.prompts, sheet.judged, 3)
    result = questions_result(sheet, arrays, EvaluationConfig(resamples=10))
    for loop in (1, 2, 3):
        losses, exact = [], []
        for row, mask in enumerate(sheet.judged):
            one = type(sheet.prompts)(
                sheet.prompts.xs[row : row + 1], sheet.prompts.ys[row : row + 1]
            )
            logits = model(one, loop)[0, 0]
            nats = -logits.log_softmax(-1)[torch.arange(len(mask)), one.ys[0]]
            losses.append(float(nats[mask].mean()))
            exact.append(bool((logits.argmax(-1) == one.ys[0])[mask].all()))
        expected = exact[0] if sheet.kind == "cloze" else int(np.argmin(losses)) == sheet.gold[0]
        assert result["accuracy"]["mean"][loop - 1] == float(expected)
        centred = result["centred"]["mean"][loop - 1]
        assert centred == (float(expected) - sheet.chance) / (1 - sheet.chance)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "is no JSON: .*line 1"),
        ('{"text": "a"}', "has no 'query' or 'context_options' or 'context': .*line 1"),
        ('{"query": "a", "choices": ["b"]}', "has no 'gold': .*line 1"),
        ('{"query": "a", "choices": [], "gold": 0}', "has no text as 'choices': .*line 1"),
        ('{"query": "a", "choices": ["b"], "gold": 1}', "has no answer number 1 as 'gold'"),
        ('{"context": "a", "continuation": 3}', "has no text as 'continuation'"),
        ("", "has a file without questions"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "it.jsonl"
    path.write_text(line)
    with pytest.raises(ConfigError, match=f"task.eval {message}") as error:
        read_questions(path)
    assert "it.jsonl" in str(error.value)
