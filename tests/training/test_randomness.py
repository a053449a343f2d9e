"""All random numbers are functions of the seed, the step and the shard, and of nothing else;
PyTorch's default dtype, which other packages change, changes no number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import evaluate
from looplab.tasks import Prompts
from looplab.training import train
from looplab.training.assemble import build_model, build_task, step_generator
from tests.training.tiny import assert_same_bits, make_trainer, saved_tensors, tiny

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


def test_they_look_uniform() -> None:
    """Over neighbouring steps, whose seeds are hashed rather than counted up."""
    numbers = np.array([_first(0, step, 0) for step in range(2000)])
    assert numbers.mean() == pytest.approx(0.5, abs=4 * (1 / 12 / 2000) ** 0.5)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / 2000**0.5


def _same(ours: Prompts, theirs: Prompts) -> bool:
    return torch.equal(ours.xs, theirs.xs) and torch.equal(ours.ys, theirs.ys)


def test_a_batch_does_not_depend_on_what_was_drawn_before(tmp_path: Path) -> None:
    trainer, other = make_trainer(tiny(tmp_path, shards=2)), make_trainer(tiny(tmp_path, shards=2))
    for step in range(5):
        other.update(step)
    assert _same(trainer.prompts(7, 1), other.prompts(7, 1))
    assert not _same(trainer.prompts(7, 1), trainer.prompts(7, 0))
    assert not _same(trainer.prompts(7, 1), trainer.prompts(8, 1))
    elsewhere = make_trainer(replace(tiny(tmp_path, shards=2), seed=1))
    assert not _same(trainer.prompts(7, 1), elsewhere.prompts(7, 1))


def test_the_first_weights_are_the_seed_s(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    task = build_task(config)
    first, again = build_model(config, task).state_dict(), build_model(config, task).state_dict()
    assert_same_bits(first, again)
    other = build_model(replace(config, seed=1), task).state_dict()
    assert not torch.equal(first["read_in.weight"], other["read_in.weight"])


@pytest.fixture
def in_double() -> Iterator[Callable[[Callable[[], list[Tensor]]], list[Tensor]]]:
    """Calls a function where float64 is the default."""
    before = torch.get_default_dtype()

    def call(function: Callable[[], list[Tensor]]) -> list[Tensor]:
        torch.set_default_dtype(torch.float64)
        try:
            return function()
        finally:
            torch.set_default_dtype(before)

    yield call
    torch.set_default_dtype(before)


InDouble = Callable[[Callable[[], list[Tensor]]], list[Tensor]]


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype is other.dtype
        assert torch.equal(one, other)


def test_training_and_evaluation(
    tmp_path: Path, in_double: InDouble, undrawn: dict[str, Figure]
) -> None:
    configs = {
        name: replace(tiny(tmp_path / name, steps=5, ema_decay=0.9, jacobian_penalty=0.1))
        for name in ("single", "double")
    }
    errors = {}
    asked = EvaluationConfig(prompts=64, resamples=20, baselines=())

    def trained(name: str) -> list[Tensor]:
        run = train(configs[name])
        errors[name] = evaluate(run, asked)["by_loop"]["model"]["mean"]
        return list(run.model.state_dict().values())

    assert_same(in_double(lambda: trained("double")), trained("single"))
    assert errors["double"] == errors["single"]
    assert_same_bits(*(saved_tensors(config) for config in configs.values()))
