"""Rows of whole documents: those of the definition, made once, never read where half-made."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.tasks.language import Language, packing
from looplab.tasks.language.packing import best_fit
from tests.tasks.conftest import generator, language_task

_START = 256


@pytest.fixture(autouse=True)
def in_a_folder_with_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPLAB_CACHE", "cache")
    numbers = random.Random(0)
    texts = [f"{number} " * numbers.randint(1, 30) for number in range(300)]
    Path("text.txt").write_text("\n<|endoftext|>\n".join(texts))


def _task() -> Language:
    return language_task(text="text.txt", packing="best_fit")


def _rows(part: Any = "train", points: int = 64) -> torch.Tensor:
    """Of a task that has read nothing yet in its process."""
    return _task().corpus.rows(part, torch.device("cpu"), points).long()


def _defined(documents: list[list[int]], size: int) -> Iterator[list[int]]:
    """Rows by the definition, with a buffer of documents in the order of their arrival."""
    coming, row = list(documents), list[int]()
    buffer = [coming.pop(0) for _ in documents[:1000]]
    while buffer:
        room, best = size - len(row), -1
        for index, document in enumerate(buffer):
            longest = len(buffer[best]) if best >= 0 else 0
            if longest < len(document) <= room:
                best = index
        if best < 0:
            shortest = min(map(len, buffer))
            best = next(i for i, document in enumerate(buffer) if len(document) == shortest)
        row += buffer.pop(best)[:room]
        if coming:
            buffer.append(coming.pop(0))
        if len(row) == size:
            yield row
            row = []


@pytest.mark.parametrize(
    ("count", "longest", "size"),
    [(1500, 40, 33), (1200, 400, 65), (2500, 8, 101), (60, 30, 200), (3, 5, 50), (1, 90, 20)],
)
@pytest.mark.parametrize("block", [2**22, 7])
def test_rows_are_those_of_the_definition(
    count: int, longest: int, size: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_BLOCK", block)
    numbers = random.Random(count)
    lengths = [numbers.randint(0, longest) for _ in range(count)]  # many of them are equal
    documents = [[_START, *(numbers.randrange(256) for _ in range(n))] for n in lengths]
    tokens = np.array([token for document in documents for token in document], np.uint16)
    rows = [row.tolist() for row in best_fit(tokens, _START, size)]
    assert rows == list(_defined(documents, size))
    assert len(rows) > 20 or count < 100


def test_a_prompt_is_a_row_and_all_rows_are_drawn() -> None:
    task = _task()
    rows = _rows()
    assert (rows[:, 0] == _START).all()
    for part, of_part in {"train": task, "held_out": task.for_evaluation()}.items():
        prompts = of_part.sample(generator(), batch=40 * len(rows), points=64)
        assert prompts.xs.dtype == prompts.ys.dtype == torch.int64
        assert torch.equal(prompts.xs[:, 1:], prompts.ys[:, :-1])
        drawn = torch.cat((prompts.xs, prompts.ys[:, -1:]), dim=1)
        assert torch.equal(drawn.unique(dim=0), _rows(part).unique(dim=0))
    assert f"{len(rows)} rows of 65 to train on" in task.data.describe(64)


def test_rows_are_made_once_and_anew_where_they_are_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = _rows()
    with monkeypatch.context() as patch:
        patch.setattr(packing, "best_fit", None)
        assert torch.equal(_rows(), made)
    (kept,) = Path("cache").rglob("bytes.64.train.rows")
    os.truncate(kept, 65 * 2 * 3)
    assert torch.equal(_rows(), made)
    kept.with_name("bytes.64.json").write_text('{"train": 3}')
    assert torch.equal(_rows(), made)


def test_a_kill_while_rows_are_made_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*given: object) -> Iterator[np.ndarray]:
        yield np.zeros(65, np.uint16)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packing, "best_fit", killed)
        with pytest.raises(KeyboardInterrupt):
            _task().data.check(64)
    assert not list(Path("cache").rglob("bytes.64.json"))
    assert (_rows()[:, 0] == _START).all()


def test_a_text_without_a_row() -> None:
    task = _task()
    count = len(task.corpus.tokens["held_out"])
    problem = rf"^task.points is {count}, but the held-out text has only {count} tokens; a row is"
    with pytest.raises(ConfigError, match=problem):
        task.data.check(count)
    task.data.check(count - 1)
    assert len(_rows("held_out", count - 1)) == 1
