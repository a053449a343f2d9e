"""A run folder written by version 0.1.0 still loads, evaluates and counts as finished."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from looplab.evaluation import evaluate, load_run
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.errors import ErrorSettings, model_errors
from looplab.evaluation.report import report
from looplab.training import train
from looplab.training.run_folder.run import run_folder
from looplab.training.validation import evaluation_prompts

(FIXTURE,) = (Path(__file__).parent / "fixtures").iterdir()


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
    assert report(result)
    assert (copy / "checkpoints" / "00001500.safetensors").read_bytes() == before
