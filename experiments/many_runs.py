"""Train and evaluate many runs, each once: what is finished, begun or missing is read from run
folders, of which one process at a time works in each, so that several shells share the runs.

failures = train_all(members_of(load("fig03"), "small"), Path("logs"))
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from looplab.conf.mistakes import HeldElsewhere, RunError, RunsFailed
from looplab.conf.saved import SHELF, read_config, shipped_names
from looplab.conf.schema import Config
from looplab.evaluation import evaluate, load_run
from looplab.evaluation.evaluate_run import stored
from looplab.training import Run, train_together
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.device import place
from looplab.training.jobs import processes_for, run_jobs
from looplab.training.progress import Work
from looplab.training.run_folder.run import run_folder
from looplab.training.run_folder.status import status_of
from looplab.training.step import Trainer
from looplab.training.together import groups

from .definition import Member
from .runs_table import one_number

_STEPS = 5


def train_all(
    members: Sequence[Member],
    logs: Path,
    jobs: int | None = None,
    devices: Sequence[str] = (),
    *,
    together: bool | Literal["auto"] = False,
    again: bool = False,
    shipped: bool = False,
) -> dict[str, str]:
    """Train each member's run once and evaluate it as all its members ask; returns why runs failed,
    by the path of their run folder.

    The longest trainings come first; what is finished and evaluated costs no process. A run that
    another process trains or evaluates is waited for. `logs` is the folder of the processes'
    output; `jobs` processes run at once (None: one a core, one on a GPU), with CUDA `devices` in
    turn. `together`: runs are trained together, "auto" where that is known to be faster; `again`:
    finished runs, too; `shipped`: models that ship stand for runs of their settings. Raises as
    `run_jobs`.
    """
    wanted = _by_run(members)
    if not again:
        wanted = [each for each in wanted if not _is_done(each, shipped)]
    if not wanted:
        return {}
    configs = [each[0].config for each in wanted]
    at_once = processes_for(len(wanted), jobs or len(devices) or None, configs[0])
    left = Estimates(configs, shipped=shipped).left()
    parts = _parts(configs, together, at_once)
    parts.sort(key=lambda part: -sum(left[index] for index in part))  # the longest first
    trainings = [
        TrainAndEvaluate([wanted[index] for index in part], shipped, again) for part in parts
    ]
    at_once = min(at_once, len(trainings))
    outcomes = run_jobs(trainings, at_once, logs, devices)
    failures: dict[str, str] = {}
    for training, outcome in zip(trainings, outcomes, strict=True):
        if outcome.failure:
            paths = [str(run_folder(each[0].config).path) for each in training.runs]
            failures |= outcome.reasons or dict.fromkeys(paths, outcome.failure)
    return failures


def _by_run(members: Sequence[Member]) -> list[list[Member]]:
    """The members of each run folder, of which the first has the snapshots of all."""
    found: dict[Path, list[Member]] = {}
    for member in members:
        found.setdefault(run_folder(member.config).path, []).append(member)
    for same in found.values():
        steps = {step for each in same for step in each.config.training.snapshots}
        training = replace(same[0].config.training, snapshots=tuple(sorted(steps)))
        same[0] = replace(same[0], config=replace(same[0].config, training=training))
    return list(found.values())


def _is_done(members: Sequence[Member], shipped: bool) -> bool:
    """Says whether a run is trained, can be read, and is evaluated as its members ask."""
    now = progress(members[0].config, shipped)
    if now.state != "finished":
        return False
    try:
        run = load_run(now.path)
    except RunError:
        return False  # its own job mends it, or says what is wrong
    evaluations = {each.config.evaluation for each in members}
    return all(stored(run, evaluation) is not None for evaluation in evaluations)


def _parts(
    configs: Sequence[Config], together: bool | Literal["auto"], at_once: int
) -> list[list[int]]:
    """The indices of the configurations of each job: those that are trained together, in so many
    parts that every process has one, and each other one alone."""
    found = groups(configs, only_if_faster=together == "auto") if together else []
    size = max(math.ceil(len(configs) / at_once), 2)
    parts = [group[first : first + size] for group in found for first in range(0, len(group), size)]
    grouped = {index for group in found for index in group}
    return [*parts, *([index] for index in range(len(configs)) if index not in grouped)]


@dataclass(frozen=True)
class TrainAndEvaluate:
    """Train runs together, unless they are finished, and evaluate each as its members ask; the
    rest is as in `train_all`."""

    runs: Sequence[Sequence[Member]]
    shipped: bool
    again: bool

    @property
    def name(self) -> str:
        """The name of the first run, for messages."""
        more = f" and {len(self.runs) - 1} more, together" if len(self.runs) > 1 else ""
        return f"{self.runs[0][0].name}{more}"

    def __call__(self) -> list[float]:
        """The error of each run's last query at b loops, by its last evaluation; of a text the bits
        per byte of its held-out part. Raises RunsFailed where a run failed, after the others,
        HeldElsewhere where another process has one."""
        errors, failures = [], dict[Path, RunError]()
        for members, run in zip(self.runs, self._trained(), strict=True):
            if isinstance(run, RunError):
                failures[run_folder(members[0].config).path] = run
            else:
                errors.append(self._evaluated(members, run))
        for error in failures.values():
            if isinstance(error, HeldElsewhere):
                raise error
        if failures:
            raise RunsFailed({str(path): str(error) for path, error in failures.items()})
        return errors

    def describe(self, result: Sequence[float]) -> str:
        """Done, and the errors."""
        errors = ", ".join(f"{error:.4g}" for error in result)
        is_text = self.runs[0][0].config.task.is_text
        return f"done, {'bits per byte' if is_text else 'error of the last query'} {errors}"

    def _trained(self) -> list[Run | RunError]:
        """Each run, or why there is none."""
        configs = [members[0].config for members in self.runs]
        names = [progress(config, self.shipped).path for config in configs]
        ships = [name.startswith("shipped/") for name in names]
        rest = [config for config, does in zip(configs, ships, strict=True) if not does]
        runs = iter(_train(rest, self.again) if rest else [])
        return [load_run(n) if does else next(runs) for n, does in zip(names, ships, strict=True)]

    def _evaluated(self, members: Sequence[Member], run: Run) -> float:
        """Evaluate a run in every way that is asked for; the last error."""
        error = 0.0
        for member in members:
            config = member.config
            result = stored(run, config.evaluation)
            result = result or evaluate(run, config.evaluation, config.device, config.figures)
            error = one_number(result) or error
        return error


def _train(configs: Sequence[Config], again: bool) -> list[Run | RunError]:
    """Train runs together, or, where other processes have some of them, the others one by one."""
    try:
        return train_together(configs, again)
    except HeldElsewhere:
        if len(configs) == 1:
            raise
    found: list[Run | RunError] = []
    for config in configs:
        try:
            found += train_together([config], again)
        except RunError as error:  # HeldElsewhere among them
            found.append(error)
    return found


class Progress(NamedTuple):
    """A training's folder or shipped model, its state (as `status_of`) and its step."""

    path: str
    state: str
    step: int


def progress(config: Config, shipped: bool = True) -> Progress:
    """Say how far the training of a configuration is. A model that ships with the project and has
    these settings counts as finished, unless the run folder is finished too, or `shipped` is
    False."""
    path = run_folder(config).path
    status = status_of(path)
    if status["state"] != "finished" and shipped and (name := _shipped().get(path.name)):
        return Progress(name, "finished", config.training.steps)
    return Progress(str(path), status["state"], int(status["step"]))


@lru_cache
def _shipped() -> dict[str, str]:
    """shipped/NAME of each model that ships, by the name of its run folder."""
    configs = {name: read_config(SHELF / name) for name in shipped_names()}
    return {run_folder(config).path.name: f"shipped/{name}" for name, config in configs.items()}


class Estimates:
    """The processor seconds of trainings: the work of each times the cost of a unit of work, which
    is that of a finished run of the same shape, or else of one measured step.

    `shipped`: as in `progress`.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        shipped: bool = True,
    ) -> None:
        self._works = [
            Work(build_curriculum(config, build_task(config)), config.training.steps)
            for config in configs
        ]
        self._done: list[float] = []
        costs: dict[object, float] = {}
        for config, work in zip(configs, self._works, strict=True):
            now = progress(config, shipped)
            self._done.append(1.0 if now.state == "finished" else work(now.step))
            seconds = status_of(Path(now.path)).get("cpu_seconds")
            if now.state == "finished" and seconds and work.total:
                costs.setdefault(_shape(config), seconds / work.total)
        for config, done, work in zip(configs, self._done, self._works, strict=True):
            if work.total and done < 1 and _shape(config) not in costs:
                costs[_shape(config)] = _measured(config)
        self._seconds = [
            work.total * costs.get(_shape(config), 0.0)
            for config, work in zip(configs, self._works, strict=True)
        ]

    def left(self) -> list[float]:
        """Seconds that each training still takes, by what was last known of it."""
        return [(1 - done) * all_ for done, all_ in zip(self._done, self._seconds, strict=True)]


def _shape(config: Config) -> object:
    """All that the cost of a unit of work depends on."""
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
