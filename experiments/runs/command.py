"""`python run.py action=list`. No torch here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.conf.command import described, run_command
from looplab.conf.mistakes import ConfigError, check_choice
from looplab.conf.schema import TableSettings
from looplab.conf.setting import check_settings, setting
from looplab.conf.words import check_words

_LIST = """\
A table of runs: name, task, model, state, steps, time left, last training loss, error of the last
query at b loops, time since it was written, and the settings in which it is unlike most of them.

  python run.py action=list
  python run.py action=list task=linear,sparse_linear state=running
  python run.py action=list 'name=linear-*' loops.b=12 sort=error
  python run.py action=list --csv > runs.csv

Any setting of a run chooses, with one value or several. Settings, with their defaults:
{settings}
"""
SORTS = ("name", "task", "model", "state", "step", "left", "loss", "error", "age")


@dataclass(frozen=True)
class ListSettings:
    """Which folder, in which order, and how the table is printed."""

    folder: str = setting("runs", "where the runs are; also those in the folders in it")
    sort: str = setting("age", f"by {', '.join(SORTS)}; -age turns the order around")
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        check_choice("sort", self.sort.removeprefix("-"), SORTS)
        if not Path(self.folder).is_dir():
            problem = f"must be a folder with runs: there is no folder {self.folder}"
            raise ConfigError("folder", problem)


def is_for_runs(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return "action=list" in words


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code. A word key=value that is no setting of the command is
    a filter."""
    if sum(word.startswith("action=") for word in words) > 1:
        print("run.py: action is given twice", file=sys.stderr)
        return 2
    words = ["tables.format=csv" if word == "--csv" else word for word in words]
    own = ("folder", "sort", "tables.format")
    rest = [word for word in words if word != "action=list"]
    filters = [word for word in rest if "=" in word and word.partition("=")[0] not in own]

    def show(settings: ListSettings) -> None:
        from .listing import listing

        check_words(filters)
        try:
            listing(settings, dict(word.split("=", 1) for word in filters))
        except BrokenPipeError:  # as of `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    asked = [word for word in rest if word not in filters]
    help_text = _LIST.format(settings=described(ListSettings))
    return run_command("run.py", ListSettings, asked, lambda: help_text, show)
