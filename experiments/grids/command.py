"""`python run.py -m …`: many runs of one command."""

from __future__ import annotations

from collections.abc import Sequence

from reloop.conf.checks.folders import check_folder
from reloop.conf.checks.processes import refuse_torchrun
from reloop.conf.command import answered, described, run_command
from reloop.conf.compose import commands
from reloop.conf.help import help_text
from reloop.conf.mistakes import ConfigError

from .settings import grid_settings, is_of_grid

FLAGS = ("-m", "--multirun")
_STATUS = ("action=status", "action=cancel")
_HELP = """\
How far the runs of a grid are, by their folders and by Slurm; or take the grid out of Slurm's line,
with every training saved.

  python run.py action=status grid=runs/grid-1234abcd
  python run.py action=cancel grid=runs/grid-1234abcd

Settings, with their defaults:
{settings}
"""


def is_for_grid(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return bool({*FLAGS, *_STATUS} & set(words))


def check_single(words: Sequence[str]) -> None:
    """Raises ConfigError where the words of a single run set something of a grid."""
    for word in words:
        if is_of_grid(word):
            raise ConfigError(word.partition("=")[0], "is for the runs of a grid: run.py -m …")


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    if {*_STATUS} & set(words):
        return _status(words)
    if {"-h", "--help"} & set(words):
        print(help_text(), end="")
        return 0
    given = [word for word in words if word not in FLAGS]
    stop_message = "stopped, with every training saved; the same command resumes"
    return answered("run.py", lambda: _run(given), stop_message, in_processes=True)


def _status(words: Sequence[str]) -> int:
    from .status import StatusSettings, cancelled, status

    own = [word for word in words if word not in _STATUS]
    show = cancelled if "action=cancel" in words else status
    return run_command("run.py", StatusSettings, own, lambda: _help(StatusSettings), show)


def _help(cls: type[object]) -> str:
    return _HELP.format(settings=described(cls))


def _run(words: Sequence[str]) -> int:
    refuse_torchrun("a grid (-m)")
    settings, own = grid_settings(words)
    if settings.engine.name == "slurm":
        from .slurm.commands import check_slurm

        check_slurm()
    members = commands(own, multirun=True)
    if len({member.action for member in members}) > 1:
        raise ConfigError("action", "must be the same for all runs of a grid")
    if members[0].action == "plan":
        raise ConfigError("action", "cannot be plan for a grid (-m), only for one of its runs")
    if settings.devices and members[0].config.device not in ("auto", "cuda"):
        problem = f"has no meaning with device={members[0].config.device}"
        raise ConfigError("devices", problem)
    for member in members:
        if member.action == "evaluate":
            check_folder("run", member.paths[0])
        else:
            check_folder("folder", member.config.folder)
    from .run import run_grid  # imports torch

    return run_grid(members, settings, own)
