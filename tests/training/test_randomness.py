"""All random numbers are functions of the seed, the step and the shard, and of nothing else;
PyTorch's default dtype, which other packages change, changes no number."""

from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure

from looplab.conf.schema import EvaluationConfig
from looplab.show.evaluate import evaluate
from looplab.tasks import Prompts
from looplab.training import train
from looplab.training.assemble import step_generator
from tests.training.tiny import assert_same_bits, drawn, make_trainer, saved_tensors, tiny

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
