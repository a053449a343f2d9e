"""One update: its loss and error against sums written out by hand, shards, clipping, totals, and
nothing that makes the host wait; a loss or gradient that is not finite: no update, and a stop.
All random numbers are functions of the seed, the step and the shard, and of nothing else."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import safetensors.torch
import torch
from matplotlib.figure import Figure
from torch import Tensor

from looplab.conf.schema import Config, EvaluationConfig, ModelConfig
from looplab.show.evaluate import evaluate
from looplab.tasks import Prompts
from looplab.training import RunError, train
from looplab.training.assemble import step_generator
from looplab.training.objective import loss
from looplab.training.run_folder.checkpoint import saved_steps
from looplab.training.run_folder.run import run_folder
from looplab.training.step import Trainer
from tests.training.tiny import (
    assert_same_bits,
    copied,
    drawn,
    make_trainer,
    saved_tensors,
    spoil_ys,
    tiny,
)


def _norm(trainer: Trainer) -> float:
    gradients = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    return float(torch.cat(gradients).double().norm())


def test_shards_give_the_mean_of_their_gradients(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path, shards=2))
    stage = trainer.curriculum(3)
    gradients: list[list[Tensor]] = []
    losses = []
    for shard in (0, 1):
        prompts = drawn(trainer, 3, shard)
        assert prompts.xs.shape == (4, 5, 2)
        predictions = trainer.model(prompts, stage.loops, stage.window)
        shard_loss = loss("squared_error", predictions, prompts.ys)
        losses.append(shard_loss.item())
        gradients.append(list(torch.autograd.grad(shard_loss, list(trainer.model.parameters()))))
    assert not torch.equal(drawn(trainer, 3, 0).xs, drawn(trainer, 3, 1).xs)
    trainer.update(3)
    for parameter, first, second in zip(trainer.model.parameters(), *gradients, strict=True):
        torch.testing.assert_close(parameter.grad, (first + second) / 2, rtol=1e-5, atol=1e-7)
    assert trainer.fetch().loss == pytest.approx(sum(losses) / 2, rel=1e-6)


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
    prompts, stage = drawn(trainer, 0, 0), trainer.curriculum(0)
    loops = 2 if family == "standard" else 4
    assert (stage.loops, stage.window, stage.grad_loops) == (loops, 1, loops)
    predictions = trainer.model(prompts, loops, 1, grad_loops=loops)
    wanted = torch.autograd.grad(
        loss("squared_error", predictions, prompts.ys), list(trainer.model.parameters())
    )
    trainer.update(0)
    for parameter, gradient in zip(trainer.model.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-7)


OPTIMIZERS = ["adam", "adamw", "muon"]
WINDOW, BATCH, POINTS = 3, 2, 5
PLACES = [*product(range(WINDOW), range(BATCH), range(POINTS))]


def _draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def test_squared_error_is_the_mean_over_window_batch_and_points() -> None:
    predictions, ys = _draw(WINDOW, BATCH, POINTS), _draw(BATCH, POINTS)
    errors = [(float(predictions[t, b, i]) - float(ys[b, i])) ** 2 for t, b, i in PLACES]
    assert float(loss("squared_error", predictions, ys)) == pytest.approx(fmean(errors), rel=1e-6)


@pytest.mark.parametrize("tokens", [(0.0, 1.0), (-1.0, 1.0)])
def test_cross_entropy_is_the_mean_of_minus_log_probabilities(tokens: tuple[float, float]) -> None:
    """Of the tokens of class 0 and class 1 in the reference, and of ours."""
    scores = _draw(WINDOW, BATCH, POINTS, 2)
    classes = (torch.arange(BATCH * POINTS) % 2).view(BATCH, POINTS)
    expected = []
    for t, b, i in PLACES:
        row = scores[t, b, i].tolist()
        expected.append(math.log(sum(map(math.exp, row))) - row[int(classes[b, i])])
    found = loss("cross_entropy", scores, torch.tensor(tokens)[classes])
    assert float(found) == pytest.approx(fmean(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("value", "training", "step"),
    [
        (math.nan, {}, 0),
        (-math.inf, {"clip": 0.5, "weight_decay": 0.1, "warmup": 5}, 3),
        (1e30, {"shards": 2}, 0),
        (2e19, {"clip": 0.5, "shards": 2}, 3),
        *((math.nan, {"clip": 0.5, "weight_decay": 0.1, "optimizer": o}, 3) for o in OPTIMIZERS),
    ],
)
def test_a_bad_step_changes_nothing(
    value: float,
    training: dict[str, Any],
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither weights nor Adam's moments nor Muon's momentum, decay included; one bad shard is
    enough; and the next step is the one that would have been without it. Two are losses that
    overflow; the last of them has a finite gradient."""
    config = tiny(tmp_path, **training)
    trainer, spared = make_trainer(config), make_trainer(config)
    shards = config.training.shards
    spoil_ys(monkeypatch, value, lambda _, at, shard: at == step and shard == shards - 1)
    for good in range(step):
        trainer.update(good)
        spared.update(good)
    before = copied(trainer.state())
    trainer.update(step)
    after = copied(trainer.state())
    assert_same_bits({name: after[name] for name in before}, before)
    assert not any(after[name].any() for name in after.keys() - before.keys())
    trainer.update(step + 1)
    spared.update(step + 1)
    totals = trainer.fetch()
    assert totals.bad_step == step
    assert math.isfinite(totals.loss)
    assert math.isfinite(totals.grad_norm)
    assert_same_bits(trainer.state(), spared.state())
    weight = "model.loop.blocks.0.qkv.weight"
    assert trainer.state()[weight].isfinite().all()
    assert not torch.equal(trainer.state()[weight], before[weight])


@pytest.mark.parametrize("value", [math.nan, 3e38])
def test_a_bad_gradient_of_a_finite_loss(value: float, tmp_path: Path) -> None:
    """One parameter's is enough, or finite ones whose norm is not."""
    trainer = make_trainer(tiny(tmp_path, clip=0.5))
    trainer.update(0)
    before = copied(trainer.state())
    bias = trainer.model.get_parameter("loop.norm.bias")
    hook = bias.register_hook(lambda gradient: torch.full_like(gradient, value))
    trainer.update(1)
    assert_same_bits(trainer.state(), before)
    hook.remove()
    assert trainer.fetch().bad_step == 1


def test_a_large_but_finite_step_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is skipped for its size alone."""
    trainer = make_trainer(tiny(tmp_path))
    before = copied(trainer.state())
    spoil_ys(monkeypatch, 1e18, lambda _, step, shard: True)
    trainer.update(0)
    totals = trainer.fetch()
    assert totals.bad_step is None
    assert 1e33 < totals.loss < math.inf
    assert not torch.equal(trainer.state()["model.read_out.bias"], before["model.read_out.bias"])


def test_the_first_bad_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next fetch starts anew."""
    trainer = make_trainer(tiny(tmp_path))
    spoil_ys(monkeypatch, math.nan, lambda _, step, shard: step in (2, 3, 5))
    for step in range(6):
        trainer.update(step)
    assert trainer.fetch().bad_step == 2
    trainer.update(6)
    assert trainer.fetch().bad_step is None


def test_training_stops_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next log: step, loops, residual norm, the very batch, and the reason in the status."""
    config = tiny(tmp_path, shards=2)
    folder = run_folder(config)
    trainer = make_trainer(config)
    with monkeypatch.context() as patch:
        spoil_ys(patch, math.inf, lambda _, step, shard: (step, shard) == (22, 1))
        batches = [drawn(trainer, 22, shard) for shard in (0, 1)]
        with pytest.raises(RunError, match="2 loops, residual norm") as stopped:
            train(config)
    status, message = folder.status(), str(stopped.value)
    assert (status["state"], status["step"], status["reason"]) == ("failed", 25, message)
    batch = safetensors.torch.load_file(folder.path / "diverged_00000023.safetensors")
    wanted = {f"xs.{shard}": prompts.xs for shard, prompts in enumerate(batches)}
    wanted |= {f"ys.{shard}": prompts.ys for shard, prompts in enumerate(batches)}
    assert_same_bits(batch, wanted)
    assert saved_steps(folder.checkpoints) == [10, 20]
    assert all(torch.isfinite(tensor).all() for tensor in saved_tensors(config).values())
    steps = [json.loads(line)["step"] for line in folder.metrics.read_text().splitlines()]
    assert steps == [5, 10, 15, 20]


def test_a_stopped_run_goes_on_where_the_cause_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = tiny(tmp_path / "whole"), tiny(tmp_path / "stopped")
    train(whole)
    with monkeypatch.context() as patch:
        spoil_ys(patch, math.nan, lambda _, step, shard: step == 22)
        with pytest.raises(RunError):
            train(stopped)
    train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))
    assert run_folder(stopped).status()["state"] == "finished"


CPU = torch.device("cpu")


def _first(seed: int, step: int, shard: int) -> float:
    """One number of 53 random bits."""
    generator = step_generator(seed, step, shard, CPU)
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def test_every_seed_step_and_shard_has_its_own_numbers() -> None:
    """Also where two of them are exchanged, or one is large."""
    steps = [0, 1, 2, 3, 1000, 500_000, 2**33]
    drawn = {
        _first(seed, step, shard)
        for seed in (0, 1, 2, 3, 2**31)
        for step in steps
        for shard in range(4)
    }
    assert len(drawn) == 5 * len(steps) * 4


def _same(ours: Prompts, theirs: Prompts) -> bool:
    return torch.equal(ours.xs, theirs.xs) and torch.equal(ours.ys, theirs.ys)


def test_a_batch_does_not_depend_on_what_was_drawn_before(tmp_path: Path) -> None:
    trainer, other = make_trainer(tiny(tmp_path, shards=2)), make_trainer(tiny(tmp_path, shards=2))
    for step in range(5):
        other.update(step)
    assert _same(drawn(trainer, 7, 1), drawn(other, 7, 1))
    assert not _same(drawn(trainer, 7, 1), drawn(trainer, 7, 0))
    assert not _same(drawn(trainer, 7, 1), drawn(trainer, 8, 1))
    elsewhere = make_trainer(replace(tiny(tmp_path, shards=2), seed=1))
    assert not _same(drawn(trainer, 7, 1), drawn(elsewhere, 7, 1))


def test_pytorch_s_default_dtype_changes_no_number(
    tmp_path: Path, undrawn: dict[str, Figure]
) -> None:
    configs = [
        tiny(tmp_path / name, steps=5, ema_decay=0.9, jacobian_penalty=0.1) for name in ("a", "b")
    ]
    asked, errors = EvaluationConfig(prompts=64, resamples=20, baselines=()), []
    for dtype, config in zip((torch.float32, torch.float64), configs, strict=True):
        torch.set_default_dtype(dtype)
        try:
            errors.append(evaluate(train(config), asked)["by_loop"]["model"]["mean"])
        finally:
            torch.set_default_dtype(torch.float32)
    assert errors[0] == errors[1]
    assert_same_bits(*(saved_tensors(config) for config in configs))
