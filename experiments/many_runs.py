"""Train and evaluate many runs, each once: what is finished, begun or missing is read from run
folders, of which one process at a time works in each, so that several shells share the runs.

failures = train_all([Wanted("seed 0", config, (config.evaluation,))], Plan(logs=Path("logs")))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from looplab.conf.mistakes import HeldElsewhere, RunError, RunsFailed
from looplab.conf.saved import SHELF, read_config, shipped_names
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation import evaluate, load_run
from looplab.evaluation.evaluate_run import stored
from looplab.evaluation.report import report
from looplab.training import Run, train_together
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.device import place
from looplab.training.jobs import processes_for, run_jobs
from looplab.training.progress import Work
from looplab.training.run_folder.run import RunFolder, run_folder
from looplab.training.run_folder.status import last_record
from looplab.training.step import Trainer
from looplab.training.together import groups

from .runs_table import one_number

_DONE = "finished"
_STEPS = 5


@dataclass(frozen=True)
class Plan:
    """How runs are trained: the folder of the processes' output; processes at once
    (None: one a core, one on a GPU), and CUDA devices that they get in turn; whether runs are
    trained together, "auto" where that is known to be faster; whether finished runs are trained
    again; whether models that ship stand for runs of their settings; and the format of each
    evaluation's tables where they are printed."""

    logs: Path
    jobs: int | None = None
    devices: tuple[str, ...] = ()
    together: bool | Literal["auto"] = False
    again: bool = False
    shipped: bool = False
    tables: Literal["", "text", "markdown", "latex", "csv"] = ""


def train_all(wanted: Sequence[Wanted], plan: Plan) -> dict[str, str]:
    """Train and evaluate runs; returns why runs failed, by the path of their run folder.

    The longest trainings come first; what is finished and evaluated costs no process. A run that
    another process trains or evaluates is waited for. Raises as `run_jobs`.
    """
    unique = _merged(wanted)
    if not plan.again:
        unique = [each for each in unique if not _is_done(each, plan.shipped)]
    if not unique:
        return {}
    configs = [each.config for each in unique]
    at_once = processes_for(len(unique), plan.jobs or len(plan.devices) or None, configs[0])
    estimates = Estimates(configs, shipped=plan.shipped)
    left = estimates.left()
    parts = _parts(configs, plan.together, at_once)
    parts.sort(key=lambda part: -sum(left[index] for index in part))  # the longest first
    jobs = [
        TrainAndEvaluate(
            tuple(unique[index] for index in part),
            shipped=plan.shipped,
            again=plan.again,
            tables=plan.tables if at_once == 1 else "",
        )
        for part in parts
    ]
    at_once = min(at_once, len(jobs))
    outcomes = run_jobs(jobs, at_once, plan.logs, plan.devices, estimates.left_now)
    failures: dict[str, str] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        if outcome.failure:
            same = {str(each.path): outcome.failure for each in job.runs}
            failures |= outcome.reasons or same
    return failures


def _merged(wanted: Sequence[Wanted]) -> list[Wanted]:
    """Each run once, with the evaluations and snapshots of all who want it."""
    unique: dict[Path, Wanted] = {}
    for each in wanted:
        path = run_folder(each.config).path
        unique[path] = unique[path].with_those_of(each) if path in unique else each
    return list(unique.values())


def _is_done(wanted: Wanted, shipped: bool) -> bool:
    """Whether a run is trained, can be read, and is evaluated as these ask."""
    now = progress(wanted.config, shipped)
    if now.state != "finished":
        return False
    try:
        run = load_run(now.path)
    except RunError:
        return False  # its own job mends it, or says what is wrong
    return all(stored(run, evaluation) is not None for evaluation in wanted.evaluations)


def _parts(
    configs: Sequence[Config], together: bool | Literal["auto"], at_once: int
) -> list[list[int]]:
    """The indices of the configurations of each job: those that are trained together, in so many
    parts that every process has one, and each other one alone."""
    found = groups(configs, only_if_faster=together == "auto") if together else []
    grouped = {index for group in found for index in group}
    alone = [[index] for index in range(len(configs)) if index not in grouped]
    while len(found) + len(alone) < at_once and (longest := max(found, key=len, default=[])):
        if len(longest) < 4:  # halves of two at least: one alone is no group
            break
        found.remove(longest)
        found += [longest[: len(longest) // 2], longest[len(longest) // 2 :]]
    return [*found, *alone]


@dataclass(frozen=True)
class Wanted:
    """A run that is to be trained and evaluated; `name` is for messages."""

    name: str
    config: Config
    evaluations: tuple[EvaluationConfig, ...]

    @property
    def path(self) -> Path:
        """Its run folder."""
        return run_folder(self.config).path

    def with_those_of(self, other: Wanted) -> Wanted:
        """Itself with the evaluations and the snapshots of another one as well."""
        steps = {*self.config.training.snapshots, *other.config.training.snapshots}
        training = replace(self.config.training, snapshots=tuple(sorted(steps)))
        evaluations = dict.fromkeys((*self.evaluations, *other.evaluations))
        return Wanted(self.name, replace(self.config, training=training), tuple(evaluations))


@dataclass(frozen=True)
class TrainAndEvaluate:
    """Train runs together, unless they are finished, and evaluate each as it is asked for.

    `shipped`: a model that ships stands for a run of its settings. `again`: a finished run is
    trained again. `tables`: the format in which each evaluation is printed, if it is."""

    runs: tuple[Wanted, ...]
    shipped: bool = False
    again: bool = False
    tables: Literal["", "text", "markdown", "latex", "csv"] = ""

    @property
    def name(self) -> str:
        """That of the first run, for messages."""
        more = f" and {len(self.runs) - 1} more, together" if len(self.runs) > 1 else ""
        return f"{self.runs[0].name}{more}"

    def __call__(self) -> list[float]:
        """The error of each run's last query at b loops, by its last evaluation; of a text the bits
        per byte of its held-out part. Raises RunsFailed
        where a run failed, after the others, HeldElsewhere where another process has one."""
        if self.tables:
            print(f"\n{self.name}", flush=True)
        errors, failures = [], {}
        held: HeldElsewhere | None = None
        for wanted, run in zip(self.runs, self._trained(), strict=True):
            if isinstance(run, HeldElsewhere):
                held = run
            elif isinstance(run, RunError):
                failures[str(wanted.path)] = str(run)
            else:
                errors.append(self._evaluated(wanted, run))
        if held:
            raise held
        if failures:
            raise RunsFailed(failures)
        return errors

    def describe(self, result: Sequence[float]) -> str:
        """Done, and the errors."""
        errors = ", ".join(f"{error:.4g}" for error in result)
        what = "bits per byte" if self.runs[0].config.task.is_text else "error of the last query"
        return f"done, {what} {errors}"

    def _trained(self) -> list[Run | RunError]:
        """Each run, or why there is none."""
        found: dict[Path, Run | RunError] = {}
        for each in self.runs:
            if self.shipped and progress(each.config).path.startswith("shipped/"):
                found[each.path] = load_run(shipped_as(each.config))
        rest = [each for each in self.runs if each.path not in found]
        runs = _train([each.config for each in rest], self.again) if rest else []
        found |= {each.path: run for each, run in zip(rest, runs, strict=True)}
        return [found[each.path] for each in self.runs]

    def _evaluated(self, wanted: Wanted, run: Run) -> float:
        """Evaluate a run in every way that is asked for; the last error."""
        error = 0.0
        for settings in wanted.evaluations:
            result = None if self.tables else stored(run, settings)
            result = result or evaluate(run, settings, wanted.config.device, wanted.config.figures)
            error = one_number(result) or error
            if self.tables:
                print(f"\n{report(result, self.tables)}\n", flush=True)
                print(f"{run.path}: evaluation.json, figures/", flush=True)
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
