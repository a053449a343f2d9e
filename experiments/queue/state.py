"""How far trainings are, and the processor time that is still to come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from reloop.conf.saved import read_config
from reloop.conf.schema import Config
from reloop.conf.shipped import SHELF, shipped_names
from reloop.training.assemble import build_curriculum, build_model, build_task
from reloop.training.device import place
from reloop.training.run_folder.run import RunFolder, run_folder
from reloop.training.run_folder.status import last_record
from reloop.training.step import Trainer
from reloop.training.work import Work

_DONE = "finished"
_STEPS = 5


class Progress(NamedTuple):
    """A training's folder or shipped model, its state, its step, and the fraction of its work that
    is done."""

    path: str
    state: str
    step: int
    done: float


def progress(config: Config, shipped: bool = True) -> Progress:
    """How far the training of a configuration is. A model that ships with the project and has these
    settings counts as finished, unless the run folder is finished too, or `shipped` is False."""
    folder = run_folder(config)
    status = folder.status()
    if status["state"] != _DONE and shipped and (name := shipped_as(config)):
        return Progress(name, _DONE, config.training.steps, 1.0)
    step = int(status["step"])
    return Progress(str(folder.path), status["state"], step, _work(config)(step) if step else 0.0)


def shipped_as(config: Config) -> str:
    """shipped/NAME, where a model that ships was trained with these settings; else empty."""
    return _shipped().get(run_folder(config).path.name, "")


@lru_cache
def _shipped() -> dict[str, str]:
    """The names of the models that ship, by the name of their run folder."""
    configs = {name: read_config(SHELF / name) for name in shipped_names()}
    return {run_folder(config).path.name: f"shipped/{name}" for name, config in configs.items()}


class Estimates:
    """The processor seconds of trainings: the work of each times the cost of a unit of work, which
    is that of a finished run of the same shape, or else of one measured step.

    `say` gets a line before the first measurement, since these take a second each, at the paper's
    scale several. `shipped`: as in `progress`.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        say: Callable[[str], object] = lambda line: None,
        shipped: bool = True,
    ) -> None:
        self.works = [_work(config) for config in configs]
        self.folders = [run_folder(config) for config in configs]
        found = [progress(config, shipped) for config in configs]
        self._costs: dict[object, float] = {}
        for config, now, work in zip(configs, found, self.works, strict=True):
            seconds = RunFolder(Path(now.path)).status().get("cpu_seconds")
            if now.state == _DONE and seconds and work.total:
                self._costs.setdefault(_shape(config), seconds / work.total)
        self._done = [now.done for now in found]
        for config, done, work in zip(configs, self._done, self.works, strict=True):
            if work.total and done < 1 and _shape(config) not in self._costs:
                say(f"measuring a step of {config.task.name}, {config.model.family}")
                self._costs[_shape(config)] = _measured(config)
        self.seconds = [
            work.total * self._costs.get(_shape(config), 0.0)
            for config, work in zip(configs, self.works, strict=True)
        ]

    def left(self) -> list[float]:
        """Seconds that each training still took when this was made."""
        return [(1 - done) * all_ for done, all_ in zip(self._done, self.seconds, strict=True)]

    def left_now(self) -> float:
        """Seconds that all trainings still take, by the last lines of their metrics.jsonl."""
        return sum(map(self._left_now, range(len(self.seconds))))

    def _left_now(self, index: int) -> float:
        if self._done[index] < 1:
            step = last_record(self.folders[index].path).get("step", 0)
            self._done[index] = max(self._done[index], self.works[index](step))
        return (1 - self._done[index]) * self.seconds[index]


def _work(config: Config) -> Work:
    return Work(build_curriculum(config, build_task(config)), config.training.steps)


def _shape(config: Config) -> object:
    """What the cost of a unit of work depends on."""
    training = config.training
    return (
        *(config.task.name, config.task.dims, config.task.points, config.model),
        *(training.batch_size, training.optimizer, training.jacobian_penalty > 0),
        *(config.device, config.precision, config.backend),
    )


def _measured(config: Config) -> float:
    """Processor seconds of a unit of work on one thread, from the last step of the curriculum: the
    quickest of a few, or the first that takes a second."""
    task = build_task(config)
    curriculum = build_curriculum(config, task)
    placement = place(config.device, config.precision, config.backend)
    trainer = Trainer(config, task, curriculum, placement.prepare(build_model(config, task)))
    last = config.training.steps - 1
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several wait for one another, which counts as work
    try:
        trainer.update(last)  # the first is slower
        seconds: list[float] = []
        while len(seconds) < _STEPS and sum(seconds) < 1:
            start = time.process_time()
            trainer.update(last)
            seconds.append(time.process_time() - start)
    finally:
        torch.set_num_threads(threads)
    stage = curriculum(last)
    return min(seconds) / (stage.points * (stage.loops + 2 * stage.grad_loops))
