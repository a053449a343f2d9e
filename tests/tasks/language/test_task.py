"""Prompts of a text: pieces of it, the same for a seed, and never of what is held out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator

from reloop.conf.mistakes import ConfigError
from reloop.tasks import make_task
from reloop.tasks.language import Language

_DOCUMENTS = [f"{letter}{letter.upper()}" * 100 for letter in "abcdefghij"]


@pytest.fixture
def task(tmp_path: Path) -> Language:
    path = tmp_path / "text.txt"
    path.write_text("\n<|endoftext|>\n".join(_DOCUMENTS))
    made = make_task("language", 1, settings={"text": str(path), "held_out": 0.2})
    assert isinstance(made, Language)
    return made


def _letters(task: Language) -> set[str]:
    prompts = task.sample(Generator().manual_seed(1), batch=500, points=20)
    return {
        chr(token).lower()
        for token in prompts.ys.unique().tolist()
        if token < 128 and chr(token).isalpha()
    }


def test_a_prompt_is_a_piece_of_the_text(task: Language) -> None:
    prompts = task.sample(Generator().manual_seed(0), batch=64, points=20)
    assert prompts.xs.shape == prompts.ys.shape == (64, 20)
    assert prompts.xs.dtype == torch.int64
    assert (prompts.xs[:, 0] == task.tokenizer.start).all()
    assert torch.equal(prompts.xs[:, 1:], prompts.ys[:, :-1])
    whole = task.tokenizer.decode(task.corpus.part("train", torch.device("cpu")).tolist())
    for row in prompts.ys.tolist():
        assert task.tokenizer.decode(row) in whole


def test_a_seed_gives_the_same_prompts(task: Language) -> None:
    first, second = (task.sample(Generator().manual_seed(3), 8, 20) for _ in range(2))
    assert torch.equal(first.ys, second.ys)
    assert not torch.equal(first.ys, task.sample(Generator().manual_seed(4), 8, 20).ys)


def test_all_places_are_equally_likely(task: Language) -> None:
    stream = task.corpus.part("train", torch.device("cpu"))
    places = task.parameters(_Random(), 1)
    first = (places * (len(stream) - 20 + 1)).long()
    counts = torch.bincount(first * 10 // len(stream), minlength=10)[:9]
    assert first.max() <= len(stream) - 20
    assert (counts - counts.float().mean()).abs().max() < 5 * counts.float().mean().sqrt()


class _Random:
    def uniform(self, *shape: int) -> torch.Tensor:
        return torch.rand(20_000, *shape, generator=Generator().manual_seed(0))

    def normal(self, *shape: int) -> torch.Tensor:
        raise AssertionError


def test_what_is_held_out_is_not_trained_on(task: Language) -> None:
    evaluation = task.for_evaluation()
    assert isinstance(evaluation, Language)
    trained, held_out = _letters(task), _letters(evaluation)
    assert len(trained) == 8
    assert len(held_out) == 2
    assert not trained & held_out


def test_a_text_of_its_own_is_held_out(task: Language, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("z" * 100)
    other = replace(task, held_out_text=str(tmp_path / "other.txt"))
    assert _letters(other) == set("abcdefghij")
    evaluation = other.for_evaluation()
    assert isinstance(evaluation, Language)
    assert _letters(evaluation) == {"z"}


def test_an_edited_text_has_another_identity(task: Language, tmp_path: Path) -> None:
    before = task.data_identity()
    (tmp_path / "text.txt").write_text("\n<|endoftext|>\n".join([*_DOCUMENTS, "new " * 50]))
    after = replace(task).data_identity()
    assert before["tokens"] == after["tokens"] == "bytes"
    assert before["text"] != after["text"]


def test_finitely_many_sequences(task: Language) -> None:
    few = replace(task, distinct_prompts=3)
    prompts = few.sample(Generator().manual_seed(0), batch=100, points=20)
    assert len(prompts.ys.unique(dim=0)) == 3


@pytest.mark.parametrize("held_out", [0.0, 1.0, 1.5])
def test_a_fraction_that_is_none(task: Language, held_out: float) -> None:
    with pytest.raises(ConfigError, match=r"task.held_out must lie between 0 and 1"):
        replace(task, held_out=held_out).check_data()


def test_a_text_shorter_than_a_sequence(task: Language) -> None:
    with pytest.raises(ConfigError, match=r"task.points is 5000, but the text has only"):
        task.sample(Generator(), 1, 5000)


def test_the_text_that_ships_is_read_at_once() -> None:
    task = make_task("language", 1)
    assert isinstance(task, Language)
    assert len(task.corpus.texts["train"]) > 40
    assert len(task.corpus.part("train", torch.device("cpu"))) > 500_000
