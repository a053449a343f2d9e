"""The penalty on the loop's Jacobian: its estimate beside the exact one, and what it does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.checks.config import check_config
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, LoopsConfig, ModelConfig
from looplab.models import Model, ModelSpec
from looplab.tasks import Prompts
from looplab.training import train, train_together
from looplab.training.inside_loops import JacobianGain
from tests.training.tiny import saved_tensors, tiny

_SPEC = ModelSpec(dims=2, n_embd=8, n_head=2, n_positions=4, injection="add")
_TOKENS = 7  # of four points, without the last y


def _drawn(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def model() -> Model:
    model = Model(replace(_SPEC, position_std=0.5)).double()
    with torch.no_grad():
        for parameter in model.loop.parameters():
            parameter.mul_(3)
    return model


PROMPTS = Prompts(_drawn(3, 4, 2), _drawn(3, 4))


@pytest.mark.parametrize(("loops", "window"), [(5, 1), (5, 3), (3, 3)])
def test_gain_is_that_of_the_exact_jacobian(model: Model, loops: int, window: int) -> None:
    noise = _drawn(3, _TOKENS, 8)
    with JacobianGain(model, noise) as jacobian:
        model(PROMPTS, loops, window)
    tokens = torch.stack((PROMPTS.xs, torch.zeros_like(PROMPTS.xs)), 2).flatten(1, 2)
    tokens[:, 1::2, 0] = PROMPTS.ys
    e = model.loop.prepare(model.read_in(tokens[:, :-1]))
    state = model.loop.start(e)
    for t in range(loops - 1):
        state = model.loop.step(state, e, t)

    def step(stream: Tensor) -> Tensor:
        return model.loop.step(state._replace(stream=stream), e, loops - 1).stream

    before = state.stream.detach()
    matrix = torch.autograd.functional.jacobian(step, before)  # [B, S, E, B, S, E]
    moved = torch.einsum("bseatf,atf->bse", matrix, noise)
    expected = (moved.square().sum((1, 2)) / noise.square().sum((1, 2))).mean()
    assert float(jacobian.gain.detach()) == pytest.approx(float(expected), rel=0.02)


@pytest.mark.parametrize(
    ("settings", "loops", "window", "grad_loops"),
    [({}, 4, 1, 1), ({"injection": "multiply"}, 4, 2, 3), ({"injection": "none"}, 3, 3, 3)],
)
def test_predictions_do_not_change(
    settings: dict[str, Any], loops: int, window: int, grad_loops: int
) -> None:
    model = Model(replace(_SPEC, **settings)).double()
    expected = model(PROMPTS, loops, window, grad_loops=grad_loops)
    with JacobianGain(model, _drawn(3, _TOKENS, 8)):
        predictions = model(PROMPTS, loops, window, grad_loops=grad_loops)
    assert torch.equal(predictions, expected)
    assert torch.equal(model(PROMPTS, loops, window, grad_loops=grad_loops), expected)


def test_no_gradient_goes_through_the_state(model: Model) -> None:
    """It is the same however far the gradients of the predictions reach back."""
    found = []
    for grad_loops in (1, 3):
        with JacobianGain(model, _drawn(3, _TOKENS, 8)) as jacobian:
            model(PROMPTS, 3, 1, grad_loops=grad_loops)
        found.append(torch.autograd.grad(jacobian.gain, list(model.loop.blocks.parameters())))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
        assert bool(ours.abs().sum() > 0)


def _gains(config: Config) -> list[float]:
    lines = (train(config).path / "metrics.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [record["jacobian_gain"] for record in records if "jacobian_gain" in record]


def test_a_penalty_lowers_the_gain_and_stands_beside_the_loss(tmp_path: Path) -> None:
    weak, strong = (
        _gains(tiny(tmp_path, jacobian_penalty=weight, steps=200)) for weight in (1e-9, 1.0)
    )
    assert strong[-1] < 0.7 * weak[-1]
    assert weak[0] > 0


def test_runs_trained_together_end_as_alone(tmp_path: Path) -> None:
    both = [
        replace(tiny(tmp_path / "together", jacobian_penalty=0.1), seed=seed) for seed in (0, 1)
    ]
    train_together(both)
    for config in both:
        alone = replace(config, folder=str(tmp_path / "alone"))
        train(alone)
        ours, theirs = saved_tensors(config), saved_tensors(alone)
        for name, tensor in ours.items():
            torch.testing.assert_close(tensor, theirs[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ModelConfig("standard", 2, 16, 2, 5, injection="none"), "model=standard"),
        (ModelConfig("looped", 1, 16, 2, 5, injection="none", connectivity="FLT"), "one stream"),
    ],
)
def test_loops_without_one_stream_are_refused(
    tmp_path: Path, model: ModelConfig, reason: str
) -> None:
    loops = LoopsConfig(4, 2, "window" if model.family == "standard" else "all")
    config = replace(tiny(tmp_path, jacobian_penalty=0.1), model=model, loops=loops)
    with pytest.raises(ConfigError, match=rf"training\.jacobian_penalty.*{reason}"):
        check_config(config)
