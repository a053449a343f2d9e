"""Halting that is trained: the formulas beside loops over single predictions, and what training
makes of them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, LoopsConfig
from looplab.evaluation.load import load_run
from looplab.models import Model, ModelSpec
from looplab.training import train
from looplab.training.halting import TrainedHalting, halted_means, halted_shares
from tests.training.tiny import tiny

_SHAPE = (5, 3, 4)  # loops, prompts, predictions


def _drawn(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _halting(**loops: Any) -> tuple[TrainedHalting, Tensor, Tensor]:
    """One whose logits are given, with predictions and targets."""
    model = Model(ModelSpec(dims=2, n_embd=8, n_head=2, n_positions=4, halts=True))
    halting = TrainedHalting(model, LoopsConfig(5, 5, **loops))
    halting.logits = (2 * _drawn(*_SHAPE, seed=1)).requires_grad_()
    return halting, _drawn(*_SHAPE, seed=2), _drawn(*_SHAPE[1:], seed=3)


def _columns(*tensors: Tensor) -> list[list[list[float]]]:
    """The loops of each single prediction, of each tensor."""
    return [tensor.detach().flatten(1).T.tolist() for tensor in tensors]


def test_ponder_is_the_expected_error_and_the_distance_from_its_prior() -> None:
    halting, predictions, ys = _halting(halt="ponder", halt_cost=0.5, halt_prior=0.3)
    error = halting.error(predictions, ys)
    prior = [0.3 * 0.7**n for n in range(5)]
    prior = [each / sum(prior) for each in prior]
    errors, distances, used = [], [], []
    targets = ys.flatten().tolist()
    shares = []
    for logits, found, y in zip(*_columns(halting.logits, predictions), targets, strict=True):
        stops, left, p = [1 / (1 + math.exp(-z)) for z in logits], 1.0, []
        for stop in (*stops[:-1], 1.0):
            p.append(left * stop)
            left *= 1 - stop
        shares.append(p)
        errors.append(sum(a * (f - y) ** 2 for a, f in zip(p, found, strict=True)))
        distances.append(sum(a * math.log(a / q) for a, q in zip(p, prior, strict=True)))
        used.append(sum(a * n for n, a in enumerate(p, 1)))
    assert error.item() == pytest.approx(sum(errors) / 12)
    assert halting.cost.item() == pytest.approx(0.5 * sum(distances) / 12)
    assert halting.loops_used.item() == pytest.approx(sum(used) / 12)
    halted = halted_shares("ponder", halting.logits.detach()).flatten(1).T
    torch.testing.assert_close(halted[:, :-1], torch.tensor(shares).double().cumsum(1)[:, :-1])


def test_act_is_the_error_of_the_mean_and_pays_for_loops_and_rest() -> None:
    halting, predictions, ys = _halting(halt="act", halt_cost=0.5)
    error = halting.error(predictions, ys)
    means = halted_means(predictions, halting.logits).detach().flatten(1).T.tolist()
    errors, used, rests = [], [], []
    targets = ys.flatten().tolist()
    for number, (logits, found, y) in enumerate(
        zip(*_columns(halting.logits, predictions), targets, strict=True)
    ):
        total, mean = 0.0, 0.0
        for n, z in enumerate(logits, 1):
            share = 1 / (1 + math.exp(-z))
            if n == 5 or total + share >= 0.99:
                break
            total, mean = total + share, mean + share * found[n - 1]
        mean += (1 - total) * found[n - 1]
        assert means[number][n - 1] == pytest.approx(mean)
        errors.append((mean - y) ** 2)
        used.append(n)
        rests.append(1 - total)
    assert len(set(used)) > 2
    assert error.item() == pytest.approx(sum(errors) / 12)
    assert halting.loops_used.item() == pytest.approx(sum(used) / 12)
    assert halting.cost.item() == pytest.approx(0.5 * (sum(used) + sum(rests)) / 12)


@pytest.mark.parametrize("kind", ["act", "ponder"])
def test_gradients_are_finite_where_all_has_halted(kind: str) -> None:
    halting, predictions, ys = _halting(halt=kind)
    halting.logits = torch.full(_SHAPE, 80.0, dtype=torch.float32, requires_grad=True)
    (halting.error(predictions.float(), ys.float()) + halting.cost).backward()
    assert halting.logits.grad is not None
    assert bool(halting.logits.grad.isfinite().all())


def _halted(folder: Path, steps: int, **loops: Any) -> Config:
    config = tiny(folder, steps=steps, learning_rate=3e-3)
    return replace(config, loops=LoopsConfig(4, 4, **loops))


@pytest.mark.parametrize(
    ("patient", "eager"),
    [
        ({"halt": "act", "halt_cost": 0.0}, {"halt": "act", "halt_cost": 10.0}),
        (
            {"halt": "ponder", "halt_cost": 10.0, "halt_prior": 0.01},
            {"halt": "ponder", "halt_cost": 10.0, "halt_prior": 0.9},
        ),
    ],
)
def test_training_halts_as_early_as_its_cost_asks(
    tmp_path: Path, patient: dict[str, Any], eager: dict[str, Any]
) -> None:
    used = []
    for settings in (patient, eager):
        path = train(_halted(tmp_path, 150, **settings)).path
        lines = (path / "metrics.jsonl").read_text("utf-8").splitlines()
        used.append(json.loads(lines[-1])["halting_loop"])
        assert load_run(path).model.spec.halts
    assert used[1] < 1.6
    assert used[1] < used[0] - 0.4


def test_what_predicts_no_number_does_not_halt() -> None:
    with pytest.raises(ConfigError, match=r"loops\.halt is for numbers"):
        ModelSpec(dims=2, n_embd=8, n_head=2, classes=2, halts=True)
