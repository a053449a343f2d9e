"""Run folders written by earlier versions still load, evaluate and count as finished.

One is of version 0.1.0; others are of commit 63fcab21, before digests were of tokens.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.errors import ErrorSettings, model_errors
from looplab.evaluation.evaluation import Evaluation
from looplab.evaluation.load import load_run
from looplab.evaluation.remarks import remarks
from looplab.main import main
from looplab.show.evaluate import evaluate
from looplab.show.report import report
from looplab.training import train
from looplab.training.run_folder.run import run_folder
from looplab.training.validation import evaluation_prompts

FIXTURES = Path(__file__).parent / "fixtures"
FIXTURE = FIXTURES / "sparse_linear-looped-seed0-77d87793"
BEFORE = FIXTURES / "before_tokens"  # a grid of two seeds, and a run of waves.py
WORDS = [
    *("task.dims=2", "task.points=5", "model.n_embd=8", "model.n_head=2", "training.steps=4"),
    *("training.batch_size=4", "loops.b=2", "loops.T=2", "curriculum.loops.start=2"),
    *("curriculum.dims.start=2", "evaluation.prompts=8", "evaluation.resamples=10"),
    *("evaluation.max_loops=3", "device=cpu"),
]


def test_its_model_makes_the_errors_that_were_kept_with_it() -> None:
    run = load_run(FIXTURE)
    kept = np.load(FIXTURE / "evaluation.npz")
    settings = run.config.evaluation
    prompts = evaluation_prompts(run.task, settings.prompts, run.config.task.points, settings.seed)
    errors = model_errors(run.model, run.task, prompts, ErrorSettings((6, 9), 18))
    np.testing.assert_allclose(errors["at_6"], kept["model_at_b"], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(errors["at_9"], kept["model"], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(errors["by_loop"], kept["by_loop"], rtol=1e-3, atol=1e-5)


def test_it_is_measured_anew_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy: its configuration still has its name, its weights still count as trained; what was
    measured in an older format is measured again, to the same errors."""
    copy = tmp_path / "tests" / "fixtures" / FIXTURE.name
    shutil.copytree(FIXTURE, copy)
    monkeypatch.chdir(tmp_path)
    config = load_run(copy).config
    assert run_folder(config).path.name == FIXTURE.name
    before = (copy / "checkpoints" / "00001500.safetensors").read_bytes()
    result = evaluate(train(config), config.evaluation)
    kept = json.loads((FIXTURE / "evaluation.json").read_text(encoding="utf-8"))
    assert "format" not in kept
    for name in ("model", "model_at_b", "least_squares", "averaging", "nearest_neighbours"):
        now = result["by_examples"][name]
        for part in ("mean", "low", "high"):
            values = numbers(kept["by_examples"][name][part])
            np.testing.assert_allclose(numbers(now[part]), values, rtol=1e-3, atol=1e-5)
    assert report(Evaluation.read(result))
    assert (copy / "checkpoints" / "00001500.safetensors").read_bytes() == before


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the earlier commit left, as the current directory."""
    copy = tmp_path / "before"
    shutil.copytree(BEFORE, copy)
    for file in copy.glob("runs/waves-*/plugins/*.py"):
        shutil.copy(file, copy)
    monkeypatch.chdir(copy)
    return copy


def _errors(folder: Path) -> list[float]:
    """The mean errors of the model and of all solvers, one after another."""
    content = json.loads((folder / "evaluation.json").read_text("utf-8"))
    bands = [band["mean"] for name, band in content["by_examples"].items() if name != "k"]
    return [error for means in bands for error in means]


def test_a_grid_is_found_by_its_command(before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is trained, and nothing measured differs."""
    folders = sorted(before.glob("runs/linear-*"))
    weights = {path: path.read_bytes() for path in before.glob("runs/*/checkpoints/*.safetensors")}
    errors = [_errors(folder) for folder in folders]
    assert main(["-m", "task=linear", "seed=0,1", *WORDS, "jobs=1"]) == 0
    said = capsys.readouterr().out
    assert "2 done, 0 failed" in said
    assert sorted(before.glob("runs/linear-*")) == folders
    assert len([*before.glob("runs/grid-*")]) == 1
    assert all(path.read_bytes() == content for path, content in weights.items())
    for folder, values in zip(folders, errors, strict=True):
        assert _errors(folder) == pytest.approx(values, rel=1e-3)


@pytest.mark.parametrize("edit", ["", "# A comment.\n", "amplitude = 2.0\n"])
def test_a_run_of_a_users_file_is_found(
    edit: str, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its copies of the files, whose bytes were part of its name; an edit is another run."""
    with open("waves_helper.py", "a", encoding="utf-8") as file:
        file.write(edit)
    (old,) = before.glob("runs/waves-*")
    errors = _errors(old)
    assert main(["plugins=waves.py", "task=waves", *WORDS]) == 0
    runs = [*before.glob("runs/waves-*")]
    if edit.startswith("amplitude"):
        assert len(runs) == 2
        assert f"edited after {old.name}" in capsys.readouterr().out
    else:
        assert runs == [old]
        assert "trained already" in capsys.readouterr().out
        assert _errors(old) == pytest.approx(errors, rel=1e-3)
        assert not [line for line in remarks(load_run(old)) if "waves" in line]
