"""Checkpoints of the reference codes: what is read, what is asked for, what wins; classifiers,
their logits and their task, for which no table is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import CurriculumConfig, GrowthConfig, LoopsConfig
from looplab.evaluation import load_run
from looplab.tasks import Prompts
from looplab.tasks.tables import TEN
from looplab.training import import_checkpoint
from tests.models.reference_codes import garg_weights, leiay_weights, predict
from tests.models.small import draw_prompts
from tests.training.reference.reference_runs import (
    SAID,
    STEP,
    garg_run,
    leiay_run,
    openml_run,
    openml_weights,
    save_state,
)


def test_a_run_of_leiay_s_needs_no_word_and_predicts_as_it_did(tmp_path: Path) -> None:
    path = leiay_run(tmp_path / "theirs")
    run = load_run(import_checkpoint(path, {}, str(tmp_path / "runs")).path)
    config = run.config
    assert (config.task.name, config.task.dims, config.task.points) == ("sparse_linear", 3, 8)
    assert config.task.settings == {"sparsity": 2}
    model = config.model
    assert (model.family, model.injection, model.n_layer) == ("looped", "multiply", 1)
    assert (model.n_embd, model.n_head, model.n_positions) == (16, 2, 8)
    assert config.loops == LoopsConfig(b=6, T=5)
    assert config.curriculum == CurriculumConfig(
        dims=GrowthConfig(2, 1, (60,)),
        points=GrowthConfig(3, 2, (50,)),
        loops=GrowthConfig(4, 2, (70,)),
    )
    training = config.training
    assert (training.steps, training.batch_size, training.learning_rate) == (STEP, 16, 3e-4)
    assert config.seed == 42
    assert run.step == STEP
    prompts = draw_prompts(points=8)
    theirs = predict(leiay_weights(1), prompts, 6, "multiply")
    torch.testing.assert_close(run.model(prompts, 6)[0], theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("code", ["leiay", "garg"])
def test_a_standard_run_predicts_as_it_did(code: str, tmp_path: Path) -> None:
    made = leiay_run(tmp_path, "gpt2") if code == "leiay" else garg_run(tmp_path)
    weights = leiay_weights(3) if code == "leiay" else garg_weights(3)
    run = load_run(import_checkpoint(made, {}, str(tmp_path / "runs")).path)
    assert (run.config.model.family, run.config.model.n_layer, run.step) == ("standard", 3, STEP)
    prompts = draw_prompts(points=8)
    ours = run.model(prompts, loops=3, window=1, grad_loops=3)[0]
    torch.testing.assert_close(ours, predict(weights, prompts, 1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("code", "task", "options", "name", "settings"),
    [
        ("leiay", "noisy_linear_regression", {}, "noisy_linear", {"noise_std": 0.1}),
        ("leiay", "decision_tree", {}, "decision_tree", {"depth": 4}),
        ("garg", "relu_2nn_regression", {"hidden_layer_size": 4}, "relu_network", {"hidden": 4}),
        ("garg", "sparse_linear_regression", {"scale": 1}, "sparse_linear", {"sparsity": 3}),
    ],
)
def test_their_tasks_have_their_options_or_their_code_s_defaults(
    code: str, task: str, options: Any, name: str, settings: Any, tmp_path: Path
) -> None:
    if code == "leiay":
        path = leiay_run(tmp_path, training__task_name=task)
    else:
        path = garg_run(tmp_path, training__task=task, training__task_kwargs=options)
    found = import_checkpoint(path, {}, str(tmp_path / "runs")).config.task
    assert (found.name, found.settings) == (name, found.settings | settings)


def test_the_step_is_asked_for_where_neither_file_nor_name_says_it(tmp_path: Path) -> None:
    path = tmp_path / "final.pt"
    torch.save({"model": leiay_weights()}, path)
    with pytest.raises(ConfigError, match=r"does not say training\.steps: "):
        import_checkpoint(path, SAID, str(tmp_path / "runs"))
    run = import_checkpoint(path, SAID | {"training.steps": 12}, str(tmp_path / "runs"))
    assert (run.step, load_run(run.path).step, run.config.training.steps) == (12, 12, 12)
    numbered = path.rename(tmp_path / "model_345.pt")
    with pytest.raises(ConfigError, match=r"training\.steps cannot be 12: .* has 345"):
        import_checkpoint(numbered, SAID | {"training.steps": 12}, str(tmp_path / "other"))
    assert import_checkpoint(numbered, SAID, str(tmp_path / "other")).step == 345


def test_a_state_saved_after_the_first_step_is_read(tmp_path: Path) -> None:
    path = save_state(tmp_path / "state.pt", leiay_weights(), step=0)
    run = load_run(import_checkpoint(path, SAID, str(tmp_path / "runs")).path)
    assert (run.step, run.config.training.steps) == (0, 1)


def test_the_command_line_wins_over_their_config(tmp_path: Path) -> None:
    path = leiay_run(tmp_path)
    given = {"task": "decision_tree", "task.depth": 2, "task.points": 2, "loops.b": 3}
    config = import_checkpoint(path, given, str(tmp_path / "runs")).config
    assert config.task.settings == {"depth": 2}  # and nothing of the task that it was
    assert (config.task.points, config.loops) == (2, LoopsConfig(3, 5))
    # Curricula that would begin beyond their new ends.
    assert (config.curriculum.points.start, config.curriculum.loops.start) == (2, 3)
    tied = import_checkpoint(path, {"model": "tied", "loops.b": 9}, str(tmp_path / "tied")).config
    assert (tied.model.injection, tied.loops.b) == ("none", 9)


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
