"""`action=clean`: what can go, and that nothing else does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reloop.conf.schema import EvaluationConfig
from reloop.evaluation import evaluate, load_run
from reloop.main import main
from reloop.training.run_folder.lock import holding

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A run with a cache and a file that a killed process left."""
    source = next(folder.glob("*/evaluation.json")).parent
    path = tmp_path / "runs" / source.name
    shutil.copytree(source, path)
    half = path / "checkpoints" / "00000020.json.abc.partial"
    half.write_bytes(b"x" * 10)
    os.utime(half, (0, 0))
    (path / "checkpoints" / "00000040.json.abc.partial").write_bytes(b"")  # may be being written
    return path


def files(path: Path) -> set[Path]:
    return {each.relative_to(path) for each in path.rglob("*") if each.is_file()}


def test_it_first_says_and_then_removes(copy: Path, capsys: Capture) -> None:
    before = files(copy)
    command = ["action=clean", f"folder={copy.parent}"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert str(copy / "cache") in out
    assert "2 of them" in out
    assert "yes=true removes them" in out
    assert files(copy) == before
    assert main([*command, "yes=true"]) == 0
    gone = {str(path) for path in before - files(copy)}
    assert gone == {"checkpoints/00000020.json.abc.partial"} | {
        str(path) for path in before if path.parts[0] == "cache"
    }
    capsys.readouterr()
    assert main(command) == 0
    assert "nothing to remove" in capsys.readouterr().out
    settings = EvaluationConfig(prompts=32, resamples=20, batch_size=32, baselines=())
    evaluate(load_run(copy), settings)  # what was removed is not needed


def test_a_run_that_a_process_works_in_stays_whole(copy: Path, capsys: Capture) -> None:
    for part in ("", "evaluation", "probing"):
        with holding(copy, part):
            assert main(["action=clean", f"folder={copy.parent}", "yes=true"]) == 0
            assert "nothing to remove" in capsys.readouterr().out
    assert (copy / "cache").is_dir()
