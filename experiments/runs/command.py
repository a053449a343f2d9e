"""`python run.py action=list`, `diff` and `clean`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from reloop.conf.command import described, run_command
from reloop.conf.words import check_words

from .settings import CleanSettings, DiffSettings, ListSettings

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
_DIFF = """\
What runs differ in: settings, versions and source files that they were made with, results.

  python run.py action=diff 'runs=[runs/A,runs/B]'

Settings, with their defaults:
{settings}
"""
_CLEAN = """\
Say what can go from the runs in a folder: caches of finished runs, which an evaluation makes again,
and files that killed processes left half written. Weights, results and pictures stay.

  python run.py action=clean
  python run.py action=clean yes=true

Settings, with their defaults:
{settings}
"""
_ACTIONS = ("list", "diff", "clean")


def is_for_runs(words: Sequence[str]) -> bool:
    """Whether run.py's words are for these commands."""
    return any(f"action={action}" in words for action in _ACTIONS)


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    action = next(name for name in _ACTIONS if f"action={name}" in words)
    if sum(word.startswith("action=") for word in words) > 1:
        print("run.py: action is given twice", file=sys.stderr)
        return 2
    rest = [word for word in words if word != f"action={action}"]
    if action == "list":
        return _list(rest)
    if action == "diff":
        return run_command("run.py", DiffSettings, rest, lambda: _help(_DIFF, DiffSettings), _diff)
    return run_command("run.py", CleanSettings, rest, lambda: _help(_CLEAN, CleanSettings), _clean)


def _list(words: Sequence[str]) -> int:
    """A word key=value that is no setting of the command is a filter."""
    words = ["tables.format=csv" if word == "--csv" else word for word in words]
    own = ("folder", "sort", "tables.format")
    filters = [word for word in words if "=" in word and word.partition("=")[0] not in own]

    def show(settings: ListSettings) -> None:
        from .listing import listing

        check_words(filters)
        try:
            listing(settings, dict(word.split("=", 1) for word in filters))
        except BrokenPipeError:  # as of `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    asked = [word for word in words if word not in filters]
    return run_command("run.py", ListSettings, asked, lambda: _help(_LIST, ListSettings), show)


def _diff(settings: DiffSettings) -> str:
    from .diff import difference

    return difference(settings)


def _clean(settings: CleanSettings) -> str:
    from .clean import clean

    return clean(settings)


def _help(text: str, cls: type[object]) -> str:
    return text.format(settings=described(cls))
