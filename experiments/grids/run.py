"""Carry out a grid: train and evaluate its runs, in this process and in any others that run the
same command, then write and print the result of all."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.conf.actions import Command
from looplab.conf.checks.folders import check_folder
from looplab.conf.compose import commands
from looplab.conf.mistakes import ConfigError
from looplab.conf.words import run_py
from looplab.training.device import place
from looplab.training.jobs import Workers, processes_for, run_jobs
from looplab.training.run_folder.lock import holding, is_locked
from looplab.training.run_folder.status import status_of
from looplab.training.together import groups, obstacle

from ..many_runs import Plan, Wanted, train_all
from ..one_command import carry_out, check_evaluation_of
from .command import GridSettings
from .grid import Grid, keep_record, read_grid
from .summary import summarise

_TRIAL_WITHIN = 60.0  # seconds that other shells, which begin at the same time, may take
_SUMMARY_WITHIN = 600.0  # seconds that another process's summary of the same grid is waited for


def run_grid(members: Sequence[Command], settings: GridSettings, words: Sequence[str]) -> int:
    """Carry out the commands of a grid, which are those of `words`; the exit code: 1 where one
    failed. Raises as `run_jobs`, ConfigError where the folder cannot be locked or a device is not
    there, and RunError where Slurm refuses."""
    if members[0].action in ("compare", "import"):
        return _without_summary(members, settings, _devices(settings, members))
    grid, local = Grid.of(members), settings.engine.name == "local"
    devices = _devices(settings, members) if local else ()
    configs = [command.config for command in members]
    for asked in {(config.device, config.precision, config.backend) for config in configs}:
        if local:
            place(*asked)  # a device that is not here is found before anything is written
    if members[0].action == "train":
        for config in {repr((each.task, each.evaluation)): each for each in configs}.values():
            check_evaluation_of(config)
    with holding(grid.folder, "trial", _TRIAL_WITHIN):  # and so is a file system without locks
        keep_record(grid, words)
        locks_work = is_locked(grid.folder / ".trial.lock")
    if not local:
        return _submit(grid, settings)
    print(_beginning(grid, settings), flush=True)
    if locks_work:
        print("locks work in this folder: other shells may carry out the same grid", flush=True)
    else:
        print("locks have no effect in this folder: use one shell alone for this grid", flush=True)
    named = {member.label: member.command for member in grid.members}
    failures = _carry_out(named, grid.folder / "logs", settings, devices)
    with holding(grid.folder, "summary", _SUMMARY_WITHIN):
        print(summarise(grid, failures), flush=True)
    return 1 if failures else 0


def run_part(folder: Path, indices: Sequence[int], processes: int | None) -> int:
    """Carry out the members of these indices of the grid in a folder, and summarise it where all
    are finished; the exit code."""
    record = read_grid(folder)
    mine = [record.members[index] for index in indices]
    named = {each.label: commands(list(each.words))[0] for each in mine}
    failures = _carry_out(named, folder / "logs", GridSettings(jobs=processes), ())
    for path, reason in failures.items():
        print(f"failed: {path}: {reason}", file=sys.stderr, flush=True)
    # The last ones first: they are the last to be finished.
    if all(status_of(each.run)["state"] == "finished" for each in reversed(record.members)):
        grid = Grid.of(commands(list(record.words), multirun=True))
        with holding(folder, "summary", _SUMMARY_WITHIN):
            print(summarise(grid, {}), flush=True)
    return 1 if failures else 0


def _carry_out(
    named: Mapping[str, Command], logs: Path, settings: GridSettings, devices: tuple[str, ...]
) -> dict[str, str]:
    """Carry out commands, by their names for messages, that train and evaluate or evaluate; returns
    why some failed, by the path of the run."""
    os.environ.setdefault("WANDB_RUN_GROUP", logs.parent.name)  # wandb reads it
    first = next(iter(named.values()))
    if first.action != "train":
        return _carry_out_all(list(named.values()), settings, devices, logs)
    return train_all(
        [Wanted(name, each.config, (each.config.evaluation,)) for name, each in named.items()],
        Plan(
            logs,
            settings.jobs,
            devices,
            first.together,
            first.again,
            stop_on_failure=settings.on_failure == "stop",
            tables=first.config.tables.format,
        ),
    )


def _submit(grid: Grid, settings: GridSettings) -> int:
    """Submit what is not finished as a Slurm job array; where all is, show the result."""
    from .slurm import submit

    missing = [
        index
        for index, member in enumerate(grid.members)
        if member.command.action != "train" or status_of(member.path)["state"] != "finished"
    ]
    if not missing:
        print(f"all {len(grid.members)} runs are finished")
        with holding(grid.folder, "summary", _SUMMARY_WITHIN):
            print(summarise(grid, {}), flush=True)
        return 0
    array = submit(grid.folder, missing, settings.engine, settings.jobs)
    tasks = f"{len(array.tasks)} task{'s' * (len(array.tasks) > 1)}"
    print(f"Slurm array {array.number}: {len(missing)} of {len(grid.members)} runs in {tasks}")
    print(run_py("action=status", f"grid={grid.folder}"))
    print(run_py("action=cancel", f"grid={grid.folder}"))
    return 0


def _beginning(grid: Grid, settings: GridSettings) -> str:
    number, first = len(grid.members), grid.members[0]
    at_once = processes_for(number, settings.jobs or len(settings.devices) or None, first.config)
    times = "one at a time" if at_once == 1 else f"{at_once} at a time"
    text = f"{number} runs, {times}; their result: {grid.folder}"
    if at_once > 1:
        text += f", their output: {grid.folder / 'logs'}"
    together = first.command.together
    configs = [member.config for member in grid.members]
    if together and not groups(configs, only_if_faster=together == "auto"):
        why = obstacle(first.config) or "docs/guide.md says which can be"
        text += f"\nno members are trained together: {why}"
    return text


@dataclass(frozen=True)
class _OneCommand:
    """A job: a command that trains nothing."""

    command: Command

    @property
    def name(self) -> str:
        return " ".join(self.command.words)

    def __call__(self) -> bool:
        print(f"\n{self.name}", flush=True)
        carry_out(self.command)
        return True

    def describe(self, result: bool) -> str:
        return "done"


def _carry_out_all(
    commands: Sequence[Command], settings: GridSettings, devices: tuple[str, ...], logs: Path
) -> dict[str, str]:
    """Carry out commands that train nothing; returns why some failed, by their words or, for an
    evaluation, by the path of the run."""
    at_once = processes_for(len(commands), settings.jobs, commands[0].config)
    workers = Workers(at_once, logs, devices, settings.on_failure == "stop")
    jobs = [_OneCommand(command) for command in commands]
    outcomes = run_jobs(jobs, workers)
    return {
        job.command.paths[0] if job.command.action == "evaluate" else job.name: outcome.failure
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.failure
    }


def _without_summary(
    commands: Sequence[Command], settings: GridSettings, devices: tuple[str, ...]
) -> int:
    """Carry out comparisons or imports, each of which has its own result."""
    for command in commands:
        check_folder("folder", command.config.folder)
    logs = Path(commands[0].config.folder) / "logs"
    failures = _carry_out_all(commands, settings, devices, logs)
    print(f"\n{len(commands) - len(failures)} done, {len(failures)} failed")
    for words, reason in failures.items():
        print(f"  failed: {words}: {reason}", file=sys.stderr)
    return 1 if failures else 0


def _devices(settings: GridSettings, commands: Sequence[Command]) -> tuple[str, ...]:
    """The CUDA devices as CUDA_VISIBLE_DEVICES names them. Raises ConfigError for one that is not
    there."""
    if not settings.devices:
        return ()
    import torch

    count = torch.cuda.device_count()
    if max(settings.devices) >= count:
        have = f"{count} CUDA device{'s' * (count != 1)}"
        raise ConfigError(
            "devices", f"names device {max(settings.devices)}, but this machine has {have}"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else [str(number) for number in range(count)]
    return tuple(names[number] for number in settings.devices)
