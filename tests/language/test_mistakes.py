"""Wrong starts of `python run.py task=language`: one line each, before anything is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from reloop import main as run
from reloop.conf.compose import commands
from tests.language.tiny import WORDS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("task.text=absent.txt", "task.text is no file and no folder: absent.txt"),
        ("task.tokens=words", "task.tokens must be bytes, bpe or a tokenizer.json"),
        ("task.points=5000 model.n_positions=5000", "task.points is 5000, but the text has only"),
        ("task.points=20", "task.points is 20, more than the model has positions"),
        ("task.dims=3", "task.dims has no meaning with task=language"),
        ("task.tokens=bpe task.vocabulary=100", "task.vocabulary must be at least 257"),
        ("task.held_out=2", "task.held_out must lie between 0 and 1, got 2"),
        ("evaluation.shifts=[noise]", "evaluation.shifts must be empty"),
        ("evaluation.baselines=[ridge]", "evaluation.baselines cannot hold ridge: it predicts"),
        (
            "model=linear_attention model.n_head=1 model.n_embd=1 model.block=gpt2 loops.T=1",
            "model.injection cannot be linear_attention for a text",
        ),
        ("model.tied_head=true training.head_rate=0.1", "training.head_rate has no meaning"),
        ("training.targets=posterior_mean", "training.targets cannot be posterior_mean"),
        ("task.eval=nowhere", "task.eval is no folder: nowhere"),
        ("task.text=asked.jsonl", "task.text cannot be JSON lines: asked.jsonl"),
        ("task.held_out_text=empty.txt", "task.held_out_text has no text: empty.txt"),
    ],
)
def test_a_wrong_start_is_one_line(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("asked.jsonl").write_text("{}\n")
    Path("empty.txt").write_text(" \n")
    given = ["training.steps=0", *words.split()]
    keys = {word.partition("=")[0] for word in given}
    kept = [word for word in WORDS if word.partition("=")[0] not in keys]
    assert run.main([*kept, *given]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("words", "name", "content", "message"),
    [
        ([], "q.jsonl", b'{"query": "the", "choices": ["a", "b"]}\n', "has no 'gold'"),
        ([], "b.txt", b"a\0b", "task.eval is no text but binary: eval/b.txt"),
        ([], "b.txt", b"\xe9t\xe9", "task.eval is not UTF-8: eval/b.txt, byte 0 is 0xe9"),
        ([], "short.txt", b"a few", "but the text short.txt has only 6 tokens"),
        (["-m", "seed=0,1"], "b.txt", b"a\0b", "task.eval is no text but binary: eval/b.txt"),
        (["evaluation.baselines=[ridge]"], "a.txt", b"a text\n" * 9, "cannot hold ridge"),
    ],
)
def test_what_evaluation_will_not_find_is_said_before_training(
    words: list[str], name: str, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("eval").mkdir()
    Path("eval", name).write_bytes(content)
    assert run.main([*words, *WORDS, "task.eval=eval"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not list(Path().glob("runs/language-*"))


def test_a_head_that_is_the_embedding_has_no_rate_of_its_own() -> None:
    (command,) = commands(["task=language", "model.tied_head=true"])
    assert command.config.training.head_rate == 0
    assert command.config.evaluation.loops is None
    assert command.config.training.embedding_rate > 0


@pytest.mark.parametrize(
    "word", ["model.tied_head=true", "model.softcap=15", "training.head_rate=0.1"]
)
def test_settings_of_texts_alone(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["task=linear", word]) == 2
    assert f"{word.partition('=')[0]} has no meaning with task=linear" in capsys.readouterr().err
