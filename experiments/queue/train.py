"""Train and evaluate many runs, each once, whoever wants it: here, in other shells, and on other
machines that see the same folder.

failures = train_all([Wanted("seed 0", config, (config.evaluation,))], Plan(logs=Path("logs")))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reloop.conf.mistakes import RunError
from reloop.conf.schema import Config
from reloop.evaluation import load_run
from reloop.evaluation.evaluate_run import stored
from reloop.training.jobs.cores import is_on_cpu, processes_for
from reloop.training.jobs.processes import Workers, run_jobs
from reloop.training.run_folder.run import run_folder
from reloop.training.together import groups

from .job import TrainAndEvaluate, Wanted
from .shells import counted
from .state import Estimates, progress
from .watch import RunWatch


@dataclass(frozen=True)
class Plan:
    """How runs are trained: the folder of the processes' output and of failures; processes at once
    (None: one a core, one on a GPU), and CUDA devices that they get in turn; whether runs are
    trained together, "auto" where that is known to be faster; whether finished runs are trained
    again; whether models that ship stand for runs of their settings; whether a failure ends the
    rest; and the format of each evaluation's tables where they are printed."""

    logs: Path
    jobs: int | None = None
    devices: tuple[str, ...] = ()
    together: bool | Literal["auto"] = False
    again: bool = False
    shipped: bool = False
    stop_on_failure: bool = False
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
    with counted(plan.logs, min(at_once, len(parts))) as shells:
        folder = Path(configs[0].folder)
        watch = RunWatch(folder, plan.logs, estimates, shells, is_on_cpu(configs[0]))
        watch.jobs = jobs = [
            TrainAndEvaluate(
                _name([unique[index] for index in part]),
                tuple(unique[index] for index in part),
                shipped=plan.shipped,
                again_before=watch.since if plan.again else None,
                tables=plan.tables if at_once == 1 else "",
            )
            for part in parts
        ]
        workers = Workers(min(at_once, len(jobs)), plan.logs, plan.devices, plan.stop_on_failure)
        outcomes = run_jobs(jobs, workers, watch)
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


def _name(runs: Sequence[Wanted]) -> str:
    return runs[0].name if len(runs) == 1 else f"{runs[0].name} and {len(runs) - 1} more, together"
