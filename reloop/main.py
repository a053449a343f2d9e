"""The main command: train and evaluate. `python run.py --help`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from reloop.conf.checks.folders import check_folder
from reloop.conf.checks.processes import check_launch, is_follower, launched, refuse_torchrun
from reloop.conf.command import answered
from reloop.conf.compose import Command, commands
from reloop.conf.help import help_text
from reloop.conf.mistakes import EndedElsewhere, HeldElsewhere

if TYPE_CHECKING:
    from reloop.training import Run, RunError


def main(words: list[str]) -> int:
    """Run the commands of these words; the exit code."""
    if is_follower():  # of the processes of one training only the first prints
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    from reloop.experiments.named import command as experiments
    from reloop.experiments.report import command as report_page
    from reloop.experiments.runs import command as runs

    if runs.is_for_runs(words):
        return runs.main(words)
    if report_page.is_for_report(words):
        return report_page.main(words)
    if experiments.is_for_experiments(words):
        return experiments.main(words)
    flags = {word for word in words if word in ("-h", "--help", "-m", "--multirun")}
    if flags & {"-h", "--help"}:
        print(help_text(), end="")
        return 0
    settings = [word for word in words if word not in flags]
    multirun = bool(flags)
    stop_message = "stopped; the same command resumes"

    def do() -> int:
        return _run_all(_commands(settings, multirun))

    return answered("run.py", do, stop_message, in_processes=True)


def _commands(words: list[str], multirun: bool) -> list[Command]:
    """The commands of these words; ConfigError for a folder that cannot be written to, and under
    torchrun for all but one training that its processes can share."""
    launch = launched()
    if launch is not None:
        if multirun:
            refuse_torchrun("a grid (-m)")
        for word in {"action=evaluate", "action=compare", "action=import"} & set(words):
            refuse_torchrun(word)
    members = commands(words, multirun=multirun)
    if launch is not None:
        check_launch(members[0].config, launch)
        if launch.rank:
            return members  # only the first process needs the folder
    for member in members:
        if member.action == "evaluate":
            check_folder("run", member.paths[0])
        else:
            check_folder("folder", member.config.folder)
    return members


def _run_all(members: list[Command]) -> int:
    """Run one command after another. A failing one does not end the rest; one of several whose
    folder another process holds waits until it is free."""
    from reloop.training.jobs.queue import Queue

    results: dict[int, tuple[Command, Any]] = {}
    failures: list[str] = []
    grid = _Grid(members)
    for index in (queue := Queue(len(members))):
        member = members[index]
        if len(members) > 1:
            print(f"\n[{index + 1}/{len(members)}] {' '.join(member.words)}", flush=True)
        try:
            code, result = _run_one(member, partial(grid.train, index))
        except HeldElsewhere as held:
            if len(members) == 1:
                raise
            if grid.separate(index):  # another member's folder may be the one in use
                queue.again(index)
                continue
            queue.hold(index, held.lock)
            print(f"in use by {held.holder}: waits while others are done", flush=True)
            continue
        except Exception as error:
            if len(members) == 1:
                raise
            print(f"run.py: {error or type(error).__name__}", file=sys.stderr)
            code, result = 1, None
        if code in (130, 143):
            return code
        if code:
            failures.append(" ".join(member.words))
        else:
            results[index] = member, result
    if len(members) > 1:
        _print_grid([results[index] for index in sorted(results)], failures)
    return 1 if failures else 0


class _Grid:
    """The members of a command, and the runs of those that were trained together."""

    def __init__(self, members: list[Command]) -> None:
        self.members = members
        self._groups: dict[int, list[int]] = {}  # for each member trained with others, all of them
        self._runs: dict[int, Run | RunError] = {}
        if not members[0].together:
            return
        from reloop.training.together import groups, obstacle

        configs = [member.config for member in members]
        for group in groups(configs, only_if_faster=members[0].together == "auto"):
            self._groups |= dict.fromkeys(group, group)
        if not self._groups:
            why = obstacle(configs[0]) or "docs/guide.md says which can be"
            print(f"no members are trained together: {why}", flush=True)

    def train(self, index: int) -> Run:
        """The trained run of a member. Raises what `train` does."""
        from reloop.training import RunError, train, train_together

        member, group = self.members[index], self._groups.get(index, [])
        if not group:
            return train(member.config, member.again)
        if index not in self._runs:
            others = "1 other member" if len(group) == 2 else f"{len(group) - 1} other members"
            print(f"trained together with {others}", flush=True)
            runs = train_together([self.members[i].config for i in group], member.again)
            self._runs |= zip(group, runs, strict=True)
        run = self._runs[index]
        if isinstance(run, RunError):
            raise run
        return run

    def separate(self, index: int) -> bool:
        """Let the members of this one's group be trained one after another; whether it has one."""
        group = self._groups.get(index, [])
        for other in group:
            del self._groups[other]
        return bool(group)


def _run_one(command: Command, train: Callable[[], Run]) -> tuple[int, Any]:
    """Run one command and print its result: exit code and, of a single run, its evaluation."""
    # Imported here, so that --help and most mistakes need not wait for torch, nor the first steps
    # for scikit-learn and matplotlib.
    from reloop.training import Interrupted, RunError

    try:
        if command.action == "import":
            _import(command)
            return 0, None
        if command.action == "compare":
            _compare(command)
            return 0, None
        return 0, _train_or_evaluate(command, train)
    except Interrupted as stop:
        print(f"\n{stop}", flush=True)
        return stop.exit_code, None
    except (HeldElsewhere, EndedElsewhere):  # the caller decides whether that is a failure
        raise
    except (RunError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1, None


def _train_or_evaluate(command: Command, train: Callable[[], Run]) -> Any:
    """Train where the action says so, evaluate, print; the evaluation."""
    config = command.config
    run = train() if command.action == "train" else None
    if is_follower():
        return None
    from reloop.evaluation import evaluate, load_run
    from reloop.evaluation.report import report

    if run is None:
        run = load_run(command.paths[0])
        print(f"{run.path}, after {run.step} of {config.training.steps} steps", flush=True)
    result = evaluate(run, config.evaluation, config.device, config.figures)
    text = report(result, config.tables.format)
    print(f"\n{text}\n\n{run.path}: evaluation.json, figures/", flush=True)
    return result


def _compare(command: Command) -> None:
    """Measure several runs on the same prompts and print them side by side."""
    from pathlib import Path

    from reloop.evaluation import compare, load_run
    from reloop.evaluation.report import comparison_table

    config = command.config
    runs = [load_run(path) for path in command.paths]
    folder = Path(config.folder)
    result = compare(runs, config.evaluation, folder, config.device, config.figures)
    print(f"\n{comparison_table(result, config.tables.format)}", flush=True)
    print(f"\n{result['path']}: comparison.json, figures/", flush=True)


def _import(command: Command) -> None:
    """Make a run folder of a reference code's checkpoint, and print the command to evaluate it."""
    from reloop.training import import_checkpoint

    run = import_checkpoint(command.paths[0], command.given, command.config.folder)
    print(f"{run.path}: {run.model.describe()}, after {run.step} steps")
    print(f"python run.py action=evaluate run={run.path}", flush=True)


def _print_grid(results: list[tuple[Command, Any]], failures: list[str]) -> None:
    """Print a grid's results: seeds side by side where members differ in nothing else, failures."""
    from reloop.evaluation.report import seeds_table

    groups: dict[tuple[str, ...], dict[int, Any]] = {}
    for command, result in results:
        key = tuple(word for word in command.words if not word.startswith("seed="))
        groups.setdefault(key, {})[command.config.seed] = result
    form = results[0][0].config.tables.format if results else "text"
    for words, by_seed in groups.items():
        if len(by_seed) > 1:
            title = f"{' '.join(words)}: error at b loops"
            print(f"\n{seeds_table(by_seed, title, form)}")
    print(f"\n{len(results)} done, {len(failures)} failed")
    for line in failures:
        print(f"  failed: {line}")
