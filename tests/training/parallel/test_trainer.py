"""What a process makes of all shards' gradients, seen without others: a CUDA graph can hold it, and
its numbers are those of autograd's own sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from reloop.conf.schema import Config
from reloop.training.assemble import build_curriculum, build_model, build_task
from reloop.training.graph import GraphRunner
from reloop.training.parallel.trainer import ShardedTrainer
from tests.training.graph.captured import variant
from tests.training.graph.tape import TapeRecorder
from tests.training.graph.test_capturable import watched
from tests.training.tiny import assert_same_bits, make_trainer, tiny


class _Alone:
    """One process that has all shards, and gathers as NCCL does: on the device."""

    rank, size = 0, 1

    def gather(self, rows: Tensor, own: Tensor) -> None:
        rows.copy_(own)


def _sharded(config: Config) -> ShardedTrainer:
    task, processes = build_task(config), _Alone()
    curriculum, model = build_curriculum(config, task), build_model(config, task)
    return ShardedTrainer(config, task, curriculum, model, processes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["jacobian", "muon"])
def test_captured_it_makes_the_same_steps(name: str, tmp_path: Path) -> None:
    config = variant(name, tmp_path)
    plain, sharded, recorder = make_trainer(config), _sharded(config), TapeRecorder()
    sharded.runner = GraphRunner(recorder)
    for step in range(25):
        plain.update(step)
        sharded.update(step)
    assert "replay" in recorder.events
    assert_same_bits(sharded.state(), plain.state())
    assert sharded.fetch() == plain.fetch()


@pytest.mark.parametrize("training", [{}, {"optimizer": "muon", "ema_decay": 0.9}])
def test_it_can_be_captured(training: dict[str, Any], tmp_path: Path) -> None:
    trainer = _sharded(tiny(tmp_path, shards=4, clip=0.5, **training))
    for step in range(3):
        trainer.update(step)
    with watched():
        trainer._step(trainer.curriculum(3))
