"""One update: its loss and error against sums written out by hand, shards, clipping, totals, and
nothing in it that makes the host wait."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from looplab.conf.schema import Config, ModelConfig
from looplab.training.objective import error, loss
from looplab.training.step import Trainer
from tests.training.tiny import make_trainer, tiny

# What gives a number to Python, or a tensor whose shape depends on numbers.
_WAITING = {
    *("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal"),
    *("aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim"),
}


class _NoWaiting(TorchDispatchMode):
    """Fails at operations that wait for the device, whoever calls them (also C++ in backward)."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        assert func.name().partition(".")[0] not in _WAITING, func.name()
        return func(*args, **(kwargs or {}))


def _norm(trainer: Trainer) -> float:
    gradients = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    return float(torch.cat(gradients).double().norm())


@pytest.mark.parametrize("step", [0, 1])
def test_no_operation_waits(step: int, tmp_path: Path) -> None:
    """As above, below Python; the first step makes Adam's state, too."""
    trainer = make_trainer(tiny(tmp_path, clip=0.5, shards=2, warmup=5, weight_decay=0.1))
    for made in range(step):
        trainer.update(made)
    with _NoWaiting():  # type: ignore[no-untyped-call]
        trainer.update(step)
        with pytest.raises(AssertionError, match="_local_scalar_dense"):
            bool(trainer.totals[0] > 0)


def test_shards_give_the_mean_of_their_gradients(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path, shards=2))
    stage = trainer.curriculum(3)
    gradients: list[list[Tensor]] = []
    losses = []
    for shard in (0, 1):
        prompts = trainer.prompts(3, shard)
        assert prompts.xs.shape == (4, 5, 2)
        predictions = trainer.model(prompts, stage.loops, stage.window)
        shard_loss = loss("squared_error", predictions, prompts.ys)
        losses.append(shard_loss.item())
        gradients.append(list(torch.autograd.grad(shard_loss, list(trainer.model.parameters()))))
    assert not torch.equal(trainer.prompts(3, 0).xs, trainer.prompts(3, 1).xs)
    trainer.update(3)
    for parameter, first, second in zip(trainer.model.parameters(), *gradients, strict=True):
        torch.testing.assert_close(parameter.grad, (first + second) / 2, rtol=1e-5, atol=1e-7)
    assert trainer.fetch().loss == pytest.approx(sum(losses) / 2, rel=1e-6)


def test_gradients_do_not_add_up_over_steps(tmp_path: Path) -> None:
    trainer, fresh = make_trainer(tiny(tmp_path)), make_trainer(tiny(tmp_path))
    trainer.update(0)
    fresh.model.load_state_dict(trainer.model.state_dict())
    trainer.update(1)
    fresh.update(1)
    assert _norm(trainer) == _norm(fresh)


@pytest.mark.parametrize("clip", [0.1, 1e6, 0.0])
def test_the_gradient_is_clipped_to_its_norm(clip: float, tmp_path: Path) -> None:
    """The logged norm is the one before; 0 means no limit."""
    trainer, free = make_trainer(tiny(tmp_path, clip=clip)), make_trainer(tiny(tmp_path))
    trainer.update(0)
    free.update(0)
    before = _norm(free)
    assert before > 0.2
    assert _norm(trainer) == pytest.approx(clip if clip == 0.1 else before, rel=1e-4)
    assert trainer.fetch().grad_norm == pytest.approx(before, rel=1e-5)
    for ours, theirs in zip(trainer.model.parameters(), free.model.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        cosine = torch.cosine_similarity(ours.grad.flatten(), theirs.grad.flatten(), dim=0)
        assert float(cosine) == pytest.approx(1, abs=1e-4) or not theirs.grad.any()


def test_totals_are_means_since_the_last_fetch(tmp_path: Path) -> None:
    one, three = make_trainer(tiny(tmp_path)), make_trainer(tiny(tmp_path))
    singles = []
    for step in range(3):
        one.update(step)
        three.update(step)
        singles.append(one.fetch())
    totals = three.fetch()
    assert totals.loss == pytest.approx(sum(single.loss for single in singles) / 3)
    assert totals.grad_norm == pytest.approx(sum(single.grad_norm for single in singles) / 3)
    assert totals.bad_step is None


def _with_family(config: Config, family: Any) -> Config:
    return replace(config, model=ModelConfig(family, 2, 16, 2, 5, injection="none"))


@pytest.mark.parametrize("family", ["tied", "standard"])
def test_without_a_window_the_loss_is_the_last_loop_s(family: str, tmp_path: Path) -> None:
    """And its gradient flows through all of them."""
    trainer = make_trainer(_with_family(tiny(tmp_path), family))
    prompts, stage = trainer.prompts(0, 0), trainer.curriculum(0)
    loops = 2 if family == "standard" else 4
    assert (stage.loops, stage.window, stage.grad_loops) == (loops, 1, loops)
    predictions = trainer.model(prompts, loops, 1, grad_loops=loops)
    wanted = torch.autograd.grad(
        loss("squared_error", predictions, prompts.ys), list(trainer.model.parameters())
    )
    trainer.update(0)
    for parameter, gradient in zip(trainer.model.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)


WINDOW, BATCH, POINTS, CLASSES = 3, 2, 5, 2
TOKENS = [(0.0, 1.0), (-1.0, 1.0)]  # of class 0 and class 1: the reference's and ours


def _draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def _classes() -> Tensor:
    """Class numbers, each of them at least once."""
    return (torch.arange(BATCH * POINTS) % CLASSES).view(BATCH, POINTS)


def _labels(tokens: tuple[float, float]) -> Tensor:
    return torch.tensor(tokens)[_classes()]


def test_squared_error_is_the_mean_over_window_batch_and_points() -> None:
    predictions, ys = _draw(WINDOW, BATCH, POINTS), _draw(BATCH, POINTS)
    total = 0.0
    for t in range(WINDOW):
        for b in range(BATCH):
            for i in range(POINTS):
                total += (float(predictions[t, b, i]) - float(ys[b, i])) ** 2
    mean = total / (WINDOW * BATCH * POINTS)
    assert float(loss("squared_error", predictions, ys)) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("tokens", TOKENS)
def test_cross_entropy_is_the_mean_of_minus_log_probabilities(tokens: tuple[float, float]) -> None:
    scores, ys = _draw(WINDOW, BATCH, POINTS, CLASSES), _classes()
    total = 0.0
    for t in range(WINDOW):
        for b in range(BATCH):
            for i in range(POINTS):
                row = [float(score) for score in scores[t, b, i]]
                total += math.log(sum(map(math.exp, row))) - row[int(ys[b, i])]
    mean = total / (WINDOW * BATCH * POINTS)
    assert float(loss("cross_entropy", scores, _labels(tokens))) == pytest.approx(mean, rel=1e-6)


def test_cross_entropy_of_large_scores_is_finite() -> None:
    scores = torch.tensor([1e4, -1e4]).expand(WINDOW, BATCH, POINTS, CLASSES)
    assert float(loss("cross_entropy", scores, torch.zeros(BATCH, POINTS))) == 0
    assert float(loss("cross_entropy", scores, torch.ones(BATCH, POINTS))) == 2e4


def test_squared_errors_keep_their_shape() -> None:
    predictions, ys = _draw(WINDOW, BATCH, POINTS), _draw(BATCH, POINTS)
    errors = error("squared_error", predictions, ys)
    assert errors.shape == (WINDOW, BATCH, POINTS)
    assert torch.equal(errors[1, 0, 2], (predictions[1, 0, 2] - ys[0, 2]) ** 2)
    assert float(errors.mean()) == pytest.approx(float(loss("squared_error", predictions, ys)))


@pytest.mark.parametrize("tokens", TOKENS)
def test_a_wrong_class_is_an_error_of_one(tokens: tuple[float, float]) -> None:
    scores, ys = _draw(WINDOW, BATCH, POINTS, CLASSES), _classes()
    errors = error("cross_entropy", scores, _labels(tokens))
    assert errors.shape == (WINDOW, BATCH, POINTS)
    for t in range(WINDOW):
        for b in range(BATCH):
            for i in range(POINTS):
                row = scores[t, b, i].tolist()
                assert float(errors[t, b, i]) == float(row.index(max(row)) != int(ys[b, i]))
    assert 0 < float(errors.mean()) < 1
