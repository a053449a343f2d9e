"""A run folder written by version 0.1.0 still loads, evaluates and counts as finished."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from evaluation import evaluate, load_run
from evaluation.errors import evaluation_prompts, model_errors
from training import train
from training.run import run_folder

(FIXTURE,) = (Path(__file__).parent / "fixtures").iterdir()


def test_its_model_makes_the_errors_that_were_kept_with_it() -> None:
    run = load_run(FIXTURE)
    kept = np.load(FIXTURE / "evaluation.npz")
    settings = run.config.evaluation
    prompts = evaluation_prompts(run.task, settings.prompts, run.config.task.points, settings.seed)
    errors = model_errors(run.model, run.task, prompts, {6, 9}, 18, settings.batch_size)
    np.testing.assert_allclose(errors.by_examples[6], kept["model_at_b"], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(errors.by_examples[9], kept["model"], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(errors.by_loop, kept["by_loop"], rtol=1e-3, atol=1e-5)


def test_its_result_is_shown_without_training_or_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy: its configuration still has its name, and what it holds still counts."""
    copy = tmp_path / "tests" / "fixtures" / FIXTURE.name
    shutil.copytree(FIXTURE, copy)
    monkeypatch.chdir(tmp_path)
    config = load_run(copy).config
    assert run_folder(config).path.name == FIXTURE.name
    before = (copy / "checkpoints" / "00001500.safetensors").read_bytes()
    result = evaluate(train(config), config.evaluation)
    assert result == json.loads((FIXTURE / "evaluation.json").read_text(encoding="utf-8"))
    assert (copy / "checkpoints" / "00001500.safetensors").read_bytes() == before
