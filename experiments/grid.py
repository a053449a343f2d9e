"""Batched training as jobs: each goes on from what it saved, and is found when it is done.

outcomes = run_cells([Cell("sqrt, R = 4", config, rates, seeds, folder)], 2, folder / "logs")
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reloop.conf.checksum import key_of
from reloop.conf.mistakes import RunError
from reloop.conf.schema import Config
from reloop.training.jobs.processes import run_jobs
from reloop.training.population.trainer import READINGS, BatchedTrainer, member_config
from reloop.training.run_folder.checkpoint import Checkpoint, newest_checkpoint, save_checkpoint
from reloop.training.run_folder.environment import training_sources
from reloop.training.run_folder.files import read_record, write_record
from reloop.training.run_folder.run import RunFolder, run_folder
from reloop.training.run_folder.sources import sources_of
from reloop.training.train import Interrupted, noted_signals

_SOURCES = (
    "reloop.training.population.trainer",
    "reloop.training.population.adam",
    "reloop.experiments.grid",
    "reloop.training.population.watched",
)
_SAVED_EVERY = 100  # steps


@dataclass(frozen=True)
class Cell:
    """Members that differ in rate and seed alone: trained in a folder of their own within `folder`,
    and measured on the prompts that `config.evaluation` says."""

    name: str  # for a user; no part of what is computed
    config: Config
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    folder: Path

    @property
    def path(self) -> Path:
        """Where it is kept: under the settings of its members that differ from their defaults, and
        the source files that their training depends on."""
        evaluation = self.config.evaluation
        members = [
            run_folder(member_config(self.config, rate, seed)).path.name
            for rate in self.rates
            for seed in self.seeds
        ]
        sources = training_sources(self.config) | sources_of(alone=_SOURCES)
        asked = [sources, members, evaluation.prompts, evaluation.seed]
        return self.folder / "cells" / key_of(asked)

    def __call__(self) -> dict[str, Any]:
        """`errors` and `initial` errors of the members [rates][seeds], over that of predicting
        zero; None for one that is not finite.

        Raises HeldElsewhere where another process is at it; Interrupted at Ctrl-C or SIGTERM
        (everything is saved)."""
        self.path.mkdir(parents=True, exist_ok=True)
        with RunFolder(self.path).lock():
            found = read_record(self.path / "errors.json", "errors").content
            saved = self._saved()
            if found is None or saved is None or saved.step < self.config.training.steps:
                found = self._train()
                write_record(self.path / "errors.json", "errors", found)
        return found

    def describe(self, result: dict[str, Any]) -> str:
        """The least error, in a few words."""
        errors = [error for row in result["errors"] for error in row if error is not None]
        return f"least error {min(errors):.3f}" if errors else "every member diverged"

    def readings(self) -> dict[str, NDArray[np.float64]]:
        """Those of READINGS of the finished cell, each [steps, rates, seeds]."""
        saved = self._saved()
        if saved is None:
            raise RunError(f"{self.path} has no checkpoint that can be read")
        history = saved.tensors["history"].double().numpy()
        shape = (len(history), len(self.rates), len(self.seeds))
        return {name: history[:, i].reshape(shape) for i, name in enumerate(READINGS)}

    def _train(self) -> dict[str, Any]:
        trainer = BatchedTrainer(self.config, self.rates, self.seeds)
        evaluation, task = self.config.evaluation, self.config.task
        prompts = trainer.task.for_evaluation().sample(
            torch.Generator().manual_seed(evaluation.seed), evaluation.prompts, task.points
        )
        initial = self._table(trainer.errors(prompts))
        step, steps = 0, self.config.training.steps
        if (saved := self._saved()) is not None:
            trainer.load(saved)
            step = saved.step
        began, since = time.process_time(), step
        with noted_signals() as signals:
            while step < steps:
                trainer.update(step)
                step += 1
                stop = bool(signals)  # read once: a signal from here on is the next step's
                if not stop and step < steps and step % _SAVED_EVERY:
                    continue
                save_checkpoint(self.path / "checkpoints", step, trainer.state())
                alive = int(trainer.alive.sum())
                seconds = (time.process_time() - began) / (step - since)
                print(
                    f"{self.name}: {step} of {steps} steps, {alive} of {len(trainer.alive)} "
                    f"members, {seconds:.3f} CPU s a step",
                    flush=True,
                )
                if stop:
                    raise Interrupted(signals[0], step)
                began, since = time.process_time(), step
        return {"errors": self._table(trainer.errors(prompts)), "initial": initial}

    def _saved(self) -> Checkpoint | None:
        """The newest checkpoint that can be read."""
        return newest_checkpoint(self.path / "checkpoints")[0]

    def _table(self, errors: Tensor) -> list[list[float | None]]:
        """Errors of members as rates of seeds."""
        values = [value if math.isfinite(value) else None for value in errors.tolist()]
        wide = len(self.seeds)
        return [values[i * wide : (i + 1) * wide] for i in range(len(self.rates))]


def run_cells(cells: Sequence[Cell], at_once: int, logs: Path) -> list[dict[str, Any]]:
    """What each cell gives, in their order, computed in processes of their own with `at_once` of
    them running, those that take longest first; what they say goes into `logs`.

    Raises RunError for those that failed.
    """
    order = sorted(range(len(cells)), key=lambda i: -_work(cells[i]))
    if at_once > 1:
        print(f"{len(cells)} cells, {at_once} at a time; their progress: {logs}", flush=True)
    outcomes = run_jobs([cells[i] for i in order], at_once, logs)
    failed = [
        f"{cells[i].name}: {o.failure}" for i, o in zip(order, outcomes, strict=True) if o.failure
    ]
    if failed:
        raise RunError("; ".join(failed))
    by_cell = dict(zip(order, outcomes, strict=True))
    return [by_cell[i].result or {} for i in range(len(cells))]


def _work(cell: Cell) -> int:
    """Blocks of one step of one prompt of every member."""
    members = len(cell.rates) * len(cell.seeds)
    return cell.config.loops.b * cell.config.model.n_layer * (2 + members)
