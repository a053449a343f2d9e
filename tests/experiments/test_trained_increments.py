"""The streams of trained runs, as far as they were trained to loop."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from looplab.conf.schema import EvaluationConfig, LoopsConfig, TaskConfig
from looplab.evaluation.load import load_run
from looplab.experiments import trained_increments
from looplab.experiments.trained_increments import measure
from looplab.training import Run, train
from looplab.training.validation import evaluation_prompts
from tests.conftest import tiny_config
from tests.experiments.checks import check_panels, panels_of


@pytest.fixture
def unnormed_run(tmp_path: Path) -> Run:
    """A finished run whose stream no norm touches."""
    config = tiny_config(tmp_path)
    model = replace(config.model, injection="none", norm="at_readout", residual_scaling="linear")
    return train(replace(config, model=model, loops=LoopsConfig(3, 1, "all")))


def test_norms_and_cosines_are_the_unrolled_states(linear_run: Run, unnormed_run: Run) -> None:
    runs = [load_run(run.path) for run in (linear_run, unnormed_run)]
    result = measure(runs, EvaluationConfig())
    names = ["trained-norms", "trained-cosines-1", "trained-cosines-2"]
    parts = ["trained-energy-1", "trained-products-1", "trained-energy-2", "trained-products-2"]
    last = ["trained-cosines-by-distance", *parts, "trained-branch", "trained-gain"]
    panels = panels_of(trained_increments, result)
    assert check_panels(panels) == [*names, *last]
    for run, found in zip(runs, result["runs"], strict=True):
        b = run.config.loops.b
        prompts = evaluation_prompts(run.task, 64, run.config.task.points, 0)
        states = [s for s, _ in run.model.unroll(prompts, b)]
        raw = [state.raw[:, :-1].norm(dim=-1).mean().item() for state in states]
        np.testing.assert_allclose(found["norm"]["mean"], raw, rtol=1e-4)
        # From loop 1 on the streams say the increments; before it stands what the loop began with.
        moves = torch.stack([s.stream[:, :-1] for s, _ in run.model.unroll(prompts, b)][1:])
        units = torch.nn.functional.normalize(moves.diff(dim=0), dim=-1)
        cosine = torch.einsum("iptd,jptd->ijpt", units, units).mean((2, 3)).numpy()
        np.testing.assert_allclose(np.array(found["cosine"])[1:, 1:], cosine, atol=1e-4)
        # The parts of the energy are those of the stream's square, of every loop.
        squares = [s.stream[:, :-1].square().sum(-1).mean().item() for s in states[1:]]
        sums = np.sum([*found["energy"].values()], axis=0)
        np.testing.assert_allclose(sums[1:], squares, rtol=1e-4)
        # The branches' sum is the increment over the factor of each.
        lengths, scale = moves.diff(dim=0).norm(dim=-1), run.model.residual_scale()
        branch = lengths.mean((1, 2)) / (scale * run.config.model.n_embd**0.5)
        np.testing.assert_allclose(found["branch"][1:], branch, rtol=1e-4)
        gain = (lengths / moves[1:].norm(dim=-1)).mean((1, 2)) / scale
        np.testing.assert_allclose(found["gain"][1:], gain, rtol=1e-4)


def test_the_cosines_before_training_are_those_of_the_run_without_a_step(
    tmp_path: Path, unnormed_run: Run
) -> None:
    (found,) = measure([load_run(unnormed_run.path)], EvaluationConfig())["runs"]
    untrained = replace(unnormed_run.config, folder=str(tmp_path / "new"))
    training = replace(untrained.training, steps=1, learning_rate=1e-9)
    new = train(replace(untrained, training=training))
    (at_start,) = measure([load_run(new.path)], EvaluationConfig())["runs"]
    assert found["apart_at_start"] == pytest.approx(at_start["apart_at_start"])
    assert at_start["apart"] == pytest.approx(at_start["apart_at_start"], rel=1e-3)


def test_texts_are_followed_at_all_their_tokens(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    scaled: dict[str, Any] = {"norm": "at_readout", "residual_scaling": "factored"}
    model = replace(config.model, injection="none", n_layer=2, n_positions=8, **scaled)
    task = TaskConfig("language", 1, 8, settings={"tokens": "bytes"})
    run = train(replace(config, task=task, model=model, loops=LoopsConfig(3, 1, "all")))
    prompts = evaluation_prompts(run.task, 64, 8, 0)
    states = torch.stack([state.raw for state, _ in run.model.unroll(prompts, 3)])
    (found,) = measure([load_run(run.path)], EvaluationConfig())["runs"]
    norms = states.norm(dim=-1).mean((1, 2)).detach()
    np.testing.assert_allclose(found["norm"]["mean"], norms, rtol=1e-4)
    branch = (states[1:].diff(dim=0) * 3 * 2**0.5).norm(dim=-1).mean((1, 2)).detach()
    width = config.model.n_embd
    np.testing.assert_allclose(found["branch"][1:], branch / width**0.5, rtol=1e-4)
