"""Classifiers of the reference codes: their logits, their task, and no table needed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reloop.conf.schema import CurriculumConfig, EvaluationConfig, GrowthConfig, LoopsConfig
from reloop.evaluation import evaluate, load_run
from reloop.evaluation.bootstrap import numbers
from reloop.openml_eval.estimators import LoopedClassifier
from reloop.tasks import Prompts
from reloop.tasks.tables import TEN
from reloop.training import import_checkpoint
from tests.models.reference_codes import garg_weights, predict
from tests.training.reference.reference_runs import (
    STEP,
    garg_run,
    openml_run,
    openml_weights,
    save_state,
)

SAID: dict[str, Any] = {"model": "looped", "model.n_head": 2, "model.injection": "add"}
SAID |= {"task.points": 41, "loops.b": 4, "loops.T": 2}


def labelled(zero: float = 0.0) -> Prompts:
    """Prompts of 41 pairs whose ys are `zero` and 1."""
    generator = torch.Generator().manual_seed(5)
    xs = torch.randn(4, 41, 3, generator=generator)
    return Prompts(xs, torch.where(torch.rand(4, 41, generator=generator) < 0.5, zero, 1.0))


@pytest.mark.parametrize("family", ["gpt2_loop", "gpt2"])
def test_a_run_of_tables_needs_no_word_and_no_table(family: str, tmp_path: Path) -> None:
    path = openml_run(tmp_path / "theirs", family)
    run = load_run(import_checkpoint(path, {}, str(tmp_path / "runs")).path)
    task, config = run.config.task, run.config
    assert (task.name, task.dims, task.points, run.step) == ("tables", 3, 41, STEP)
    assert task.settings["held_out"] == "delta_ailerons"
    assert task.settings["protocol"] == "reference"
    assert tuple(task.settings["tables"]) == TEN
    assert run.task.labels == (0.0, 1.0)
    # Its code looks at no curriculum but that of the loops.
    loops = GrowthConfig(4, 2, (70,)) if family == "gpt2_loop" else CurriculumConfig().loops
    assert config.curriculum == CurriculumConfig(loops=loops)
    looped = family == "gpt2_loop"
    assert config.loops == (LoopsConfig(b=6, T=5) if looped else LoopsConfig())
    prompts, steps = labelled(), 6 if looped else 3
    ours = run.model(prompts, steps, 1, grad_loops=steps)[0]
    injection = "multiply" if looped else "none"
    theirs = predict(openml_weights(family), prompts, 6 if looped else 1, injection)  # type: ignore[arg-type]
    assert ours.shape == (4, 41, 2)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_it_is_measured_on_the_table_that_was_left_out(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    data = tmp_path / "data"
    data.mkdir()
    xs = random.normal(size=(900, 2))
    np.savez(data / "wind.npz", xs=xs, ys=(xs[:, 0] > 0).astype(np.int64))
    given = {"task.data_dir": str(data), "task.held_out": "wind"}
    run = import_checkpoint(openml_run(tmp_path / "a"), given, str(tmp_path / "runs"))
    result = evaluate(run, EvaluationConfig(prompts=16, resamples=5, batch_size=8, max_loops=7))
    assert result["by_loop"]["loop"] == [*range(1, 8)]
    assert 0 <= numbers(result["by_loop"]["model"]["mean"])[5] <= 1


def test_it_serves_as_an_estimator(tmp_path: Path) -> None:
    run = import_checkpoint(openml_run(tmp_path / "a"), {}, str(tmp_path / "runs"))
    xs = np.random.default_rng(1).normal(size=(40, 3))
    answers = LoopedClassifier(str(run.path)).fit(xs, xs[:, 0] > 0).predict_proba(xs[:5])
    assert answers.shape == (5, 2)


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ({"task": "tables", "task.held_out": "wind"}, (0.0, 1.0)),
        (
            {"task": "tables", "task.held_out": "", "task.protocol": "corrected"},
            (-1.0, 1.0),
        ),
        (
            {"task": "tables", "task.tables": ["a", "b"], "task.held_out": "b"},
            (0.0, 1.0),
        ),
        (
            {"task": "halfspaces", "task.vary_features": True, "task.shared_factor": 0.5}
            | {"task.threshold": 0.5, "task.flips": 0},
            (-1.0, 1.0),
        ),
    ],
)
def test_a_file_alone_becomes_what_it_is_said_to_be(
    task: dict[str, Any], labels: tuple[float, float], tmp_path: Path
) -> None:
    path = save_state(tmp_path / "state.pt", openml_weights())
    run = load_run(import_checkpoint(path, task | SAID, str(tmp_path / "runs")).path)
    assert run.task.labels == labels
    for key, value in task.items():
        if key != "task":
            found = run.config.task.settings[key.removeprefix("task.")]
            assert (list(found) if isinstance(found, tuple) else found) == value
    prompts = labelled(labels[0])
    theirs = predict(openml_weights(), prompts, 4, "add")  # type: ignore[arg-type]
    torch.testing.assert_close(run.model(prompts, 4)[0], theirs, rtol=0, atol=1e-5)
    # The same words find the same folder again.
    assert import_checkpoint(path, task | SAID, str(tmp_path / "runs")).path == run.path


def test_garg_s_linear_classification_is_one_of_halfspaces(tmp_path: Path) -> None:
    """Its one number is the log odds of y = 1, which two logits 0 and z are too."""
    path = garg_run(
        tmp_path / "a", training__task="linear_classification", training__task_kwargs={}
    )
    run = load_run(import_checkpoint(path, {}, str(tmp_path / "runs")).path)
    assert run.config.task.name == "halfspaces"
    plain = {"vary_features": False, "shared_factor": 0.0, "threshold": 0.0, "flips": 0.0}
    assert run.config.task.settings == plain
    whole = labelled(-1.0)
    prompts = Prompts(whole.xs[:, :8], whole.ys[:, :8])
    ours = run.model(prompts, 3, 1, grad_loops=3)[0].softmax(-1)[..., 1]
    theirs = predict(garg_weights(3), prompts, 1).sigmoid()  # type: ignore[arg-type]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    result = evaluate(run, EvaluationConfig(prompts=16, resamples=5, batch_size=8))
    assert 0 <= numbers(result["by_loop"]["model"]["mean"])[-1] <= 1
