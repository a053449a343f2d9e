"""The main command: train and evaluate what the words ask for. `python run.py --help`."""

from __future__ import annotations

import sys
from typing import Any

from reloop.conf.checks.folders import check_folder
from reloop.conf.command import answered
from reloop.conf.compose import Command, commands
from reloop.conf.help import help_text
from reloop.conf.mistakes import HeldElsewhere


def main(words: list[str]) -> int:
    """Do what the words ask for; the exit code."""
    flags = {word for word in words if word in ("-h", "--help", "-m", "--multirun")}
    if flags & {"-h", "--help"}:
        print(help_text(), end="")
        return 0
    rest = [word for word in words if word not in flags]
    multirun = bool(flags)
    stopped = "stopped; the same command resumes"
    return answered("run.py", lambda: _run_all(_commands(rest, multirun)), stopped)


def _commands(words: list[str], multirun: bool) -> list[Command]:
    """What the words ask for; ConfigError where it cannot be written where it is to be."""
    found = commands(words, multirun=multirun)
    for each in found:
        if each.action == "evaluate":
            check_folder("run", each.paths[0])
        else:
            check_folder("folder", each.config.folder)
    return found


def _run_all(members: list[Command]) -> int:
    """One command after another; a failing one does not end the rest, and of several one whose
    folder another process holds waits until it is free."""
    from reloop.training.jobs.queue import Queue

    done: dict[int, tuple[Command, Any]] = {}
    failed: list[str] = []
    for index in (queue := Queue(len(members))):
        member = members[index]
        if len(members) > 1:
            print(f"\n[{index + 1}/{len(members)}] {' '.join(member.words)}", flush=True)
        try:
            code, result = _run_one(member)
        except HeldElsewhere as held:
            if len(members) == 1:
                raise
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
            failed.append(" ".join(member.words))
        else:
            done[index] = member, result
    if len(members) > 1:
        _print_grid([done[index] for index in sorted(done)], failed)
    return 1 if failed else 0


def _run_one(command: Command) -> tuple[int, Any]:
    """Do what one command asks for and show it: exit code and, of a single run, its evaluation."""
    # Imported here, so that --help and most mistakes are answered without waiting for torch, and
    # the first steps without waiting for scikit-learn and matplotlib.
    from reloop.training import Interrupted, RunError

    try:
        if command.action == "import":
            _import(command)
            return 0, None
        if command.action == "compare":
            _compare(command)
            return 0, None
        return 0, _train_or_evaluate(command)
    except Interrupted as stop:
        print(f"\n{stop}", flush=True)
        return stop.exit_code, None
    except HeldElsewhere:  # whether that is a failure is not for one command to say
        raise
    except (RunError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1, None


def _train_or_evaluate(command: Command) -> Any:
    """Train where that is asked for, evaluate, show; the evaluation."""
    from reloop.training import train

    config = command.config
    run = train(config, command.again) if command.action == "train" else None
    from reloop.evaluation import evaluate, load_run
    from reloop.evaluation.report import report

    if run is None:
        run = load_run(command.paths[0])
        print(f"{run.path}, after {run.step} of {config.training.steps} steps", flush=True)
    result = evaluate(run, config.evaluation, config.device)
    print(f"\n{report(result)}\n\n{run.path}: evaluation.json, figures/", flush=True)
    return result


def _compare(command: Command) -> None:
    """Measure several runs on the same prompts and show them side by side."""
    from pathlib import Path

    from reloop.evaluation import compare, load_run
    from reloop.evaluation.report import comparison_table

    config = command.config
    runs = [load_run(path) for path in command.paths]
    result = compare(runs, config.evaluation, Path(config.folder), config.device)
    print(f"\n{comparison_table(result)}", flush=True)
    print(f"\n{result['path']}: comparison.json, figures/", flush=True)


def _import(command: Command) -> None:
    """Make a checkpoint of another code a run folder, and say what can be done with it."""
    from reloop.training import import_checkpoint

    run = import_checkpoint(command.paths[0], command.given, command.config.folder)
    print(f"{run.path}: {run.model.describe()}, after {run.step} steps")
    print(f"python run.py action=evaluate run={run.path}", flush=True)


def _print_grid(done: list[tuple[Command, Any]], failed: list[str]) -> None:
    """What became of a grid: seeds side by side where members differ in nothing else, failures."""
    from reloop.evaluation.report import seeds_table

    groups: dict[tuple[str, ...], dict[int, Any]] = {}
    for command, result in done:
        rest = tuple(word for word in command.words if not word.startswith("seed="))
        groups.setdefault(rest, {})[command.config.seed] = result
    for words, results in groups.items():
        if len(results) > 1:
            print(f"\n{' '.join(words)}: error at b loops\n{seeds_table(results)}")
    print(f"\n{len(done)} done, {len(failed)} failed")
    for line in failed:
        print(f"  failed: {line}")
