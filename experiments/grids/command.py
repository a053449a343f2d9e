"""`python run.py -m …`: many runs of one command."""

from __future__ import annotations

from collections.abc import Sequence

from reloop.conf.checks.folders import check_folder
from reloop.conf.command import answered
from reloop.conf.compose import commands
from reloop.conf.mistakes import ConfigError

from .settings import grid_settings, is_of_grid

FLAGS = ("-m", "--multirun")


def is_for_grid(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return bool({*FLAGS} & set(words))


def check_single(words: Sequence[str]) -> None:
    """Raises ConfigError where the words of a single run set something of a grid."""
    for word in words:
        if is_of_grid(word):
            raise ConfigError(word.partition("=")[0], "is for the runs of a grid: run.py -m …")


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    given = [word for word in words if word not in FLAGS]
    stop_message = "stopped, with every training saved; the same command resumes"
    return answered("run.py", lambda: _run(given), stop_message)


def _run(words: Sequence[str]) -> int:
    settings, own = grid_settings(words)
    members = commands(own, multirun=True)
    if len({member.action for member in members}) > 1:
        raise ConfigError("action", "must be the same for all runs of a grid")
    for member in members:
        if member.action == "evaluate":
            check_folder("run", member.paths[0])
        else:
            check_folder("folder", member.config.folder)
    from .run import run_grid  # imports torch

    return run_grid(members, settings)
