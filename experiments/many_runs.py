"""Train and evaluate many runs, each once.

Run folders say what is finished, begun or missing. One process at a time works in each folder, so
that several shells can share the runs.

failures = train_all(members_of(load("fig03"), "small"), Path("logs"))
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from looplab.conf.checks.reach import check_reach
from looplab.conf.mistakes import RunError
from looplab.conf.saved import SHELF, read_config, shipped_names
from looplab.conf.schema import Config
from looplab.evaluation.evaluate_run import is_stored
from looplab.evaluation.kept import altered
from looplab.evaluation.load import load_run
from looplab.show.evaluate import evaluate
from looplab.training import Run, train
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.device import place
from looplab.training.jobs import processes_for, run_jobs
from looplab.training.progress import Work, how_far
from looplab.training.run_folder.run import run_folder, shown_evaluation
from looplab.training.run_folder.status import one_number, status_of
from looplab.training.step import Trainer

from .definition import Member

_TIMED_STEPS = 5  # at most, of which the quickest counts


def train_all(
    members: Sequence[Member],
    logs: Path,
    jobs: int | None = None,
    devices: Sequence[str] = (),
    *,
    again: bool = False,
    shipped: bool = False,
) -> dict[str, str]:
    """Train each member's run once and evaluate it as all its members ask; returns why runs failed,
    by the path of their run folder.

    The longest trainings come first; what is finished and evaluated costs no process. A run that
    another process trains or evaluates is waited for. `logs` is the folder of the processes'
    output; `jobs` processes run at once (None: one a core, one on a GPU), with CUDA `devices` in
    turn. `again`: finished runs, too; `shipped`: models that ship stand for runs of their settings.
    Raises as `run_jobs`, and ConfigError for one that is beyond this machine, before any.
    """
    trainings = []
    for same_run in _by_run(members):
        if again or not is_done(same_run, shipped):
            trainings.append(TrainAndEvaluate(same_run, shipped, again))
    if not trainings:
        return {}
    for training in trainings:
        for member in training.members:
            check_reach(member.config)
    configs = [training.config for training in trainings]
    at_once = processes_for(len(trainings), jobs or len(devices) or None, configs[0])
    seconds = time_left(configs, shipped)
    # A long training that begins last would leave the other processes idle.
    order = sorted(range(len(trainings)), key=lambda index: -seconds[index])
    longest_first = [trainings[index] for index in order]
    outcomes = run_jobs(longest_first, at_once, logs, devices)
    return {
        str(training.folder): outcome.failure
        for training, outcome in zip(longest_first, outcomes, strict=True)
        if outcome.failure
    }


def _by_run(members: Sequence[Member]) -> list[list[Member]]:
    """The members of each run folder, of which the first has the snapshots of all."""
    by_folder: dict[Path, list[Member]] = {}
    for member in members:
        by_folder.setdefault(run_folder(member.config).path, []).append(member)
    for same_run in by_folder.values():
        # One training serves all members: it keeps every snapshot that one of them asks for.
        steps = {step for member in same_run for step in member.config.training.snapshots}
        first = same_run[0]
        training = replace(first.config.training, snapshots=tuple(sorted(steps)))
        same_run[0] = replace(first, config=replace(first.config, training=training))
    return list(by_folder.values())


def is_done(members: Sequence[Member], shipped: bool) -> bool:
    """Says whether a run is trained, can be read, is evaluated as its members ask, and shows an
    evaluation with all its files."""
    now = progress(members[0].config, shipped)
    if now.state != "finished":
        return False
    try:
        run = load_run(now.path)
        files = shown_evaluation(run).get("files", {})
    except RunError:
        return False  # its own job mends it, or says what is wrong
    evaluations = {member.config.evaluation for member in members}
    is_evaluated = all(is_stored(run, evaluation) for evaluation in evaluations)
    return is_evaluated and not altered(run.path, files)


@dataclass(frozen=True)
class TrainAndEvaluate:
    """Train a run, unless it is finished, and evaluate it as all its members ask; the rest is as in
    `train_all`."""

    members: Sequence[Member]
    shipped: bool
    again: bool

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.members[0].name

    @property
    def config(self) -> Config:
        """The run's configuration."""
        return self.members[0].config

    @property
    def folder(self) -> Path:
        """The run folder."""
        return run_folder(self.config).path

    def __call__(self) -> float:
        """The error of the last query at b loops, by the last evaluation; of a text the bits per
        byte of its held-out part. Raises RunError where the run failed, HeldElsewhere where another
        process has it."""
        run = self._trained()
        error = 0.0
        for member in self.members:
            config = member.config
            result = evaluate(run, config.evaluation, config.device, config.figures)
            error = one_number(result) or error
        return error

    def describe(self, result: float) -> str:
        """Done, and the error."""
        quantity = "bits per byte" if self.config.task.is_text else "error of the last query"
        return f"done, {quantity} {result:.4g}"

    def progress(self) -> str:
        """Step, loss and time left of its training."""
        return how_far(self.folder, self.config.training.steps)

    def _trained(self) -> Run:
        path = progress(self.config, self.shipped).path
        if path.startswith("shipped/"):
            return load_run(path)
        return train(self.config, self.again)


class RunProgress(NamedTuple):
    """A training's folder or shipped model, its state (as `status_of`) and its step."""

    path: str
    state: str
    step: int


def progress(config: Config, shipped: bool = True) -> RunProgress:
    """Say how far the training of a configuration is. A model that ships with the project and has
    these settings counts as finished, unless the run folder is finished too, or `shipped` is
    False."""
    path = run_folder(config).path
    status = status_of(path)
    # A finished run of one's own stands before the model that ships.
    if shipped and status["state"] != "finished" and path.name in _shipped():
        return RunProgress(_shipped()[path.name], "finished", config.training.steps)
    return RunProgress(str(path), status["state"], int(status["step"]))


@lru_cache
def _shipped() -> dict[str, str]:
    """shipped/NAME of each model that ships, by the name of its run folder."""
    configs = {name: read_config(SHELF / name) for name in shipped_names()}
    return {run_folder(config).path.name: f"shipped/{name}" for name, config in configs.items()}


def time_left(configs: Sequence[Config], shipped: bool = True) -> list[float]:
    """The processor seconds that each training still takes: its work times the cost of a unit of
    work, which is that of a finished run of the same shape, or else of one measured step.
    `shipped`: as in `progress`."""
    costs: dict[object, float] = {}  # seconds of a unit, by shape
    units_left = []
    for config in configs:
        work = Work(build_curriculum(config, build_task(config)), config.training.steps)
        now = progress(config, shipped)
        if now.state != "finished":
            units_left.append(work.total * (1 - work(now.step)))
            continue
        units_left.append(0.0)
        seconds = status_of(Path(now.path)).get("cpu_seconds")
        if seconds and work.total:
            # What a finished training took tells the cost of others of its shape.
            costs.setdefault(_shape(config), seconds / work.total)
    seconds_left = []
    for config, units in zip(configs, units_left, strict=True):
        shape = _shape(config)
        if units and shape not in costs:
            # No such training is finished: one step is measured.
            costs[shape] = _timed_cost(config)
        seconds_left.append(units * costs[shape] if units else 0.0)
    return seconds_left


def _shape(config: Config) -> object:
    """All that the cost of a unit of work depends on."""
    training = config.training
    prompts = (config.task.name, config.task.dims, config.task.points, training.batch_size)
    update = (training.optimizer, training.jacobian_penalty > 0)
    machine = (config.device, config.precision, config.backend)
    return (prompts, config.model, update, machine)


def _timed_cost(config: Config) -> float:
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
        while len(seconds) < _TIMED_STEPS and sum(seconds) < 1:
            start = time.process_time()
            trainer.update(last)
            seconds.append(time.process_time() - start)
    finally:
        torch.set_num_threads(threads)
    stage = curriculum(last)
    # A unit of work, as `Work` counts: one point through one loop; backwards it costs twice that.
    return min(seconds) / (stage.points * (stage.loops + 2 * stage.grad_loops))
