"""A training of 60 small steps (a fifth of a second), and ways to stop it and to compare its ends.

config = tiny(tmp_path, clip=0.5)
crashed(config, 17)
"""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig
from looplab.curricula import Stage
from looplab.tasks import Prompts
from looplab.training import Interrupted, train
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.run_folder.checkpoint import newest_checkpoint
from looplab.training.run_folder.run import run_folder
from looplab.training.step import Trainer

# The words of a run of one step, of whatever task, and of its evaluation.
WORDS = [
    *("task.dims=2", "task.points=4", "model.n_embd=8", "model.n_head=1", "loops.b=2", "loops.T=2"),
    *("training.steps=1", "training.batch_size=2", "evaluation.prompts=3"),
    "evaluation.resamples=2",
]


class Crash(Exception):
    """Something that training does not foresee."""


def tiny(folder: Path, **training: Any) -> Config:
    """A run below `folder`; keywords change its TrainingConfig."""
    settings = {"steps": 60, "batch_size": 8, "checkpoint_every": 10, "log_every": 5}
    return Config(
        task=TaskConfig("linear", dims=2, points=5),
        model=ModelConfig(n_embd=16, n_head=2, n_positions=5),
        loops=LoopsConfig(4, 2),
        training=TrainingConfig(**{"learning_rate": 1e-3, **settings, **training}),
        device="cpu",
        folder=str(folder),
    )


def make_trainer(config: Config) -> Trainer:
    """A trainer that has made no step, without a run folder."""
    task = build_task(config)
    return Trainer(config, task, build_curriculum(config, task), build_model(config, task))


def drawn(trainer: Trainer, step: int, shard: int = 0) -> Prompts:
    """The prompts of one shard of a step."""
    trainer.prepare(step)
    return trainer.draw(trainer.curriculum(step), shard)


def crash() -> NoReturn:
    """End as a bug or a power failure would: with nothing saved."""
    raise Crash


def after_step(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], object]) -> None:
    """Call `act` once, when step `step` (counted from 0) has been made."""
    update, todo = Trainer.update, [step]

    def wrapped(self: Trainer, made: int) -> None:
        update(self, made)
        if made in todo:
            todo.remove(made)
            act()

    monkeypatch.setattr(Trainer, "update", wrapped)


def crashed(config: Config, step: int) -> None:
    """A training that crashes when step `step` has been made."""
    with pytest.MonkeyPatch.context() as patch:
        after_step(patch, step, crash)
        with pytest.raises(Crash):
            train(config)


def interrupted(config: Config, step: int, by: int = signal.SIGINT) -> Interrupted:
    """The same that gets a signal then, and what it says."""
    with pytest.MonkeyPatch.context() as patch:
        after_step(patch, step, lambda: os.kill(os.getpid(), by))
        with pytest.raises(Interrupted) as told:
            train(config)
    return told.value


def spoil_ys(
    monkeypatch: pytest.MonkeyPatch, value: float, when: Callable[[Trainer, int, int], bool]
) -> None:
    """Make one output of a batch `value` wherever `when(trainer, step, shard)`."""
    draw = Trainer.draw

    def wrapped(self: Trainer, stage: Stage, shard: int) -> Prompts:
        prompts = draw(self, stage, shard)
        if when(self, int(self.number) - 1, shard):
            prompts.ys[0, 0] = value
        return prompts

    monkeypatch.setattr(Trainer, "draw", wrapped)


def saved_tensors(config: Config) -> dict[str, Tensor]:
    """The tensors of a run's newest checkpoint: weights and Adam's state."""
    checkpoint, problems = newest_checkpoint(run_folder(config).checkpoints)
    assert checkpoint is not None
    assert not problems
    return checkpoint.tensors


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy that later steps do not write into."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def assert_same_bits(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    """Fail naming the tensors that differ in any bit (so that -0 is not 0, and NaN is NaN)."""
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if _bits(ours[name]) != _bits(theirs[name])]
    assert not different


def _bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    numbers = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return tensor.dtype, tensor.shape, numbers.tobytes()
