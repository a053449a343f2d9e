"""A run in one of several processes: the first leads, which means that it alone reads and writes
the run's folder, and prints; the others follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import safetensors.torch
import torch

from reloop.conf.mistakes import EndedElsewhere, RunError
from reloop.conf.schema import Config
from reloop.curricula import Curriculum
from reloop.models import Model
from reloop.tasks import Task

from ..logging import LogRecord
from ..member import Member
from ..run_folder.checkpoint import Checkpoint
from ..step import Trainer
from .processes import Processes
from .trainer import ShardedTrainer

_STEP = "step"  # among the names of the tensors of a state, which have a dot, or are rate_factor


class _InProcesses(Member):
    """What leader and followers do alike."""

    def __init__(self, config: Config, processes: Processes) -> None:
        self.processes = processes
        super().__init__(config)

    def make_trainer(self, task: Task, curriculum: Curriculum, model: Model) -> Trainer:
        return ShardedTrainer(self.config, task, curriculum, model, self.processes)

    def stop_signal(self, noted: Sequence[int], last: bool) -> int:
        return self.processes.stop_signal(noted[0] if noted else 0, last)

    def facts(self) -> bytes:
        """What all processes must have in common."""
        kind, torch_version = self.trainer.device.type, torch.__version__
        precision, backend = self.placement.precision, self.placement.backend
        return repr((self.folder.path.name, kind, precision, backend, torch_version)).encode()

    def check_weights(self) -> None:
        """Raises RunError where the weights of the processes differ."""
        weights = {name: tensor.cpu() for name, tensor in self.trainer.model.state_dict().items()}
        if not self.processes.same(safetensors.torch.save(weights)):
            raise RunError(
                f"{self.folder.path}: the processes have come apart: their weights differ, so that "
                f"nothing is saved; {self.processes.store.last_checkpoint()}"
            )


class Leader(_InProcesses):
    """The run in the first process."""

    def begin(self) -> None:
        super().begin()
        size, shards = self.processes.size, self.config.training.shards
        print(f"  {size} processes, each with {shards // size} of {shards} shards", flush=True)

    def share(self) -> None:
        """Give the others the state after the current step."""
        tensors = self.trainer.state() | {_STEP: torch.tensor(self.step)}
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        self.processes.share(safetensors.torch.save(content))
        self.processes.note_saved(self.step)

    def record(self, step: int, save: bool, interrupted: bool) -> LogRecord | None:
        if save:
            self.check_weights()
        record = super().record(step, save, interrupted)
        if save and record is not None:
            self.processes.note_saved(step)
        return record

    def _recover(self, step: int, bad_step: int) -> None:
        super()._recover(step, bad_step)
        if self.failure is None:
            self.share()
        else:
            self.processes.share()


class Follower(_InProcesses):
    """The run in another process: the same steps, and no files."""

    shown = False

    def __init__(self, config: Config, processes: Processes) -> None:
        super().__init__(replace(config, wandb="disabled", tensorboard=False), processes)

    def begin(self) -> None:
        """Nothing to say."""

    @contextmanager
    def timed(self, share: float) -> Iterator[None]:
        yield

    def share(self) -> None:
        """Take the state that the leader gives; where it gives none, its run has failed."""
        content = self.processes.share()
        if not content:
            self.failure = EndedElsewhere("the first process says why the run failed")
            return
        tensors = safetensors.torch.load(content)
        self.step = int(tensors.pop(_STEP))
        self.trainer.load(Checkpoint(self.step, tensors))

    def record(self, step: int, save: bool, interrupted: bool) -> LogRecord | None:
        if save:
            self.check_weights()
        totals = self.trainer.fetch()
        if totals.bad_step is not None:
            self.share()
            return None
        self.step = step
        return LogRecord(step, totals, self.trainer.curriculum(step - 1), 0.0)

    def _write_status(self, state: str, **facts: Any) -> None:
        raise AssertionError("only the first process writes")
