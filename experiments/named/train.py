"""Train the members of experiments, each run once whichever experiments want it, and evaluate each
as every one of them asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from reloop.conf.schema import Config, EvaluationConfig
from reloop.evaluation import load_run
from reloop.evaluation.evaluate_run import measured, stored
from reloop.training import Run, RunError, train_together
from reloop.training.jobs.processes import Outcome, processes_for, run_jobs
from reloop.training.run_folder.run import run_folder
from reloop.training.together import groups

from .members import Member
from .state import progress, seconds_left, shipped_as


@dataclass(frozen=True)
class TrainAndEvaluate:
    """A job: train runs of one shape together, unless they are finished, and evaluate each under
    all its requests; `name` is for messages."""

    name: str
    configs: tuple[Config, ...]
    requests: tuple[tuple[EvaluationConfig, ...], ...]

    def __call__(self) -> list[str]:
        """What went wrong, a line for each run that failed. Raises as `train_together`."""
        failures = []
        for run, config, requests in zip(self._runs(), self.configs, self.requests, strict=True):
            if isinstance(run, RunError):
                failures.append(str(run))
                continue
            for request in requests:
                measured(run, request, config.device)
        return failures

    def describe(self, result: list[str]) -> str:
        """Done, or the first failure."""
        return f"failed: {result[0]}" if result else "done"

    def _runs(self) -> list[Run | RunError]:
        to_train = [config for config in self.configs if not is_shipped(config)]
        trained = iter(train_together(to_train) if to_train else [])
        return [
            load_run(shipped_as(config)) if is_shipped(config) else next(trained)
            for config in self.configs
        ]


def is_shipped(config: Config) -> bool:
    """Whether a model that ships stands for this run."""
    return progress(config).path.startswith("shipped/")


def train_all(members: Sequence[Member], processes: int | None, logs: Path) -> dict[str, str]:
    """Train and evaluate the members of any number of experiments; returns why runs failed, by the
    path of their run folder.

    Members that differ in seed or rates alone are trained together where that is faster; what is
    finished and evaluated costs no process. Raises as `run_jobs`.
    """
    requests: dict[Path, list[EvaluationConfig]] = {}
    unique: dict[Path, Member] = {}
    for member in members:
        path = run_folder(member.config).path
        unique[path] = _with_snapshots_of(unique.get(path, member), member)
        asked = requests.setdefault(path, [])
        if member.config.evaluation not in asked:
            asked.append(member.config.evaluation)
    chosen = [m for path, m in unique.items() if not _is_done(m.config, requests[path])]
    configs = [member.config for member in chosen]
    together = groups(configs, only_if_faster=True)
    grouped = {index for group in together for index in group}
    parts = [*together, *([index] for index in range(len(configs)) if index not in grouped)]
    left = seconds_left(configs)
    parts.sort(key=lambda part: -sum(left[index] for index in part))  # the longest first
    jobs = [
        TrainAndEvaluate(
            _name([chosen[index] for index in part]),
            tuple(configs[index] for index in part),
            tuple(tuple(requests[run_folder(configs[index]).path]) for index in part),
        )
        for part in parts
    ]
    if not jobs:
        return {}
    outcomes = run_jobs(jobs, processes_for(len(jobs), processes, configs[0]), logs)
    failures: dict[str, str] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        if problem := _problem(outcome):
            failures |= {str(run_folder(config).path): problem for config in job.configs}
    return failures


def _with_snapshots_of(member: Member, other: Member) -> Member:
    """A member that also keeps the snapshots that the same run has elsewhere."""
    training = member.config.training
    steps = tuple(sorted({*training.snapshots, *other.config.training.snapshots}))
    config = replace(member.config, training=replace(training, snapshots=steps))
    return replace(member, config=config)


def _is_done(config: Config, requests: Sequence[EvaluationConfig]) -> bool:
    """Whether a run is trained, can be read, and is evaluated as these ask."""
    now = progress(config)
    if now.state != "finished":
        return False
    try:
        run = load_run(now.path)
    except RunError:
        return False  # its own job mends it, or says what is wrong
    return all(stored(run, request) is not None for request in requests)


def _problem(outcome: Outcome) -> str:
    return outcome.failure or "; ".join(cast(list[str], outcome.result) or [])


def _name(members: Sequence[Member]) -> str:
    first = members[0]
    seeds = ", ".join(str(member.config.seed) for member in members)
    return f"{first.config.task.name}, {first.label}, seed{'s' * (len(members) > 1)} {seeds}"
