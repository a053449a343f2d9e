"""What a run keeps of its text and tokens: both are known again, and checked when it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reloop import main as run
from reloop.conf.compose import commands
from reloop.evaluation import load_run, snapshots_of
from reloop.tasks.language.tokens import BytePairs
from reloop.training import train
from reloop.training.run_folder.copies import ship
from reloop.training.run_folder.status import status_of
from tests.language.tiny import WORDS, only_run


def test_a_tokeniser_is_kept_with_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = [*WORDS, "task.tokens=bpe", "task.vocabulary=270"]
    assert run.main(words) == 0
    path = only_run()
    assert (path / "tokenizer.json").exists()
    loaded = load_run(path)
    assert loaded.model.spec.vocabulary == 270
    shipped = ship(path, Path("shelf") / "text")
    assert load_run(shipped).model.spec.vocabulary == 270
    capsys.readouterr()
    assert run.main(["action=generate", f"run={shipped}", "prompt=the", "tokens=5"]) == 0
    assert capsys.readouterr().out.startswith("the")
    result = json.loads((path / "evaluation.json").read_text())
    bits = result["language"]["texts"]["held_out"]
    assert bits["bytes"] > 1.2 * bits["tokens"]


def test_an_edited_tokeniser_file_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """An unfinished run does not go on with other tokens, and a finished one says so; with the file
    of before it goes on, and without any."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    file = Path("own.json")
    file.write_text(BytePairs.trained(["the cat sat on the mat " * 9], 262).content())
    first = file.read_text()
    words = [*WORDS, "task.tokens=own.json"]
    train(commands(words)[0].config, until=2)
    file.write_text(BytePairs.trained(["what a piece of work is a man " * 9], 262).content())
    capsys.readouterr()
    assert run.main(words) == 1
    err = capsys.readouterr().err
    assert "its data changed after it began (tokens)" in err
    assert err.count("\n") == 1
    file.write_text(first)
    assert run.main(words) == 0
    file.write_text("{}")
    capsys.readouterr()
    assert run.main(words) == 0
    assert "trained on other data: tokens changed" in capsys.readouterr().out
    file.unlink()
    assert run.main(["action=evaluate", f"run={only_run()}"]) == 0
    assert "trained on other data" not in capsys.readouterr().out


def test_an_edited_text_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(WORDS) == 0
    text = Path("text.txt").read_text()
    Path("text.txt").write_text(text.replace("sat", "sit"))
    capsys.readouterr()
    assert run.main(WORDS) == 0
    out = capsys.readouterr().out
    assert "trained on other data: text, held_out changed (again=true trains again)" in out
    # An unfinished one does not go on with another text.
    for path in (only_run() / "checkpoints").glob("*60.*"):
        path.unlink()
    assert run.main(WORDS) == 1
    err = capsys.readouterr().err
    assert "its data changed after it began (text, held_out), so that it cannot go on" in err
    assert run.main([*WORDS, "again=true"]) == 0
    assert status_of(only_run())["state"] == "finished"


def test_a_path_has_one_name_however_it_is_typed() -> None:
    (first,) = commands([*WORDS, "task.held_out_text=folder", "task.eval=eval"])
    (second,) = commands([*WORDS, "task.held_out_text=./folder/", "task.eval=eval/"])
    assert first.config == second.config


def test_a_snapshot_of_a_text_is_measured_and_continued(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has the vocabulary and the tokeniser of its run, after step 0 too."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = [*WORDS, "task.tokens=bpe", "task.vocabulary=270", "training.snapshots=[0,20]"]
    run_path = train(commands(words)[0].config).path
    for step, path in snapshots_of(run_path).items():
        assert load_run(path).model.spec.vocabulary == 270
        assert (path / "tokenizer.json").read_text() == (run_path / "tokenizer.json").read_text()
        capsys.readouterr()
        assert run.main(["action=generate", f"run={path}", "prompt=the", "tokens=3"]) == 0
        assert capsys.readouterr().out.startswith("the")
        assert run.main(["action=evaluate", f"run={path}", "evaluation.resamples=10"]) == 0
        out = capsys.readouterr().out
        assert "bits per byte" in out
        assert f"training unfinished: {step} of 60 steps" in out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "has no data.json"),
        ('{"kind": "data"}', "data.json was altered"),
        ("not JSON", "data.json cannot be read"),
    ],
)
def test_a_run_without_its_record_of_the_data(
    content: str | None, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unfinished one does not go on, since its text and tokens are unknown; again=true trains it
    anew. A finished one says what is missing."""
    train(commands(WORDS)[0].config, until=20)
    record = only_run() / "data.json"

    def damage() -> None:
        record.unlink() if content is None else record.write_text(content)

    damage()
    capsys.readouterr()
    assert run.main(WORDS) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert problem in err
    assert "so that it cannot go on; again=true trains again" in err
    assert run.main([*WORDS, "again=true"]) == 0
    assert status_of(only_run())["state"] == "finished"
    damage()
    capsys.readouterr()
    assert run.main(["action=generate", f"run={only_run()}", "prompt=the"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert problem in err
    assert "it says how many tokens the model's vocabulary has" in err


def test_a_text_that_has_moved_is_given_its_new_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which is found again; and from another folder, where another text has its name, its own."""
    assert run.main(WORDS) == 0
    path = only_run().absolute()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "text.txt").write_text("another text\n" * 80)
    monkeypatch.chdir(elsewhere)
    assert run.main(["action=evaluate", f"run={path}", "evaluation.seed=1"]) == 0
    Path("../text.txt").rename(tmp_path / "moved.txt")
    moved = ["action=evaluate", f"run={path}", "evaluation.seed=2"]
    assert run.main([*moved, "task.text=../moved.txt"]) == 0
    assert run.main([*moved[:2], "evaluation.seed=3"]) == 0
    assert "other data" not in capsys.readouterr().out
    assert run.main([*moved[:2], "task.text=text.txt"]) == 0
    assert "trained on other data: text, held_out changed" in capsys.readouterr().out
