"""`python run.py action=report`: one page of everything in the runs folder."""

from __future__ import annotations

from collections.abc import Sequence

from reloop.conf.command import described, run_command

from .settings import ReportSettings

_ACTION = "action=report"
_HELP = """\
Write one HTML page of what was measured: claims with verdicts and the commands that make them,
figures that answer to mouse and keyboard with the numbers behind each, comparisons, scaling laws,
training curves, the settings in which runs differ, and what they were made with.

  python run.py action=report
  python run.py action=report experiment=fig03
  python run.py action=report 'runs=[runs/A,runs/linear-*]' output=PATH

Settings, with their defaults:
{settings}
The page loads nothing from elsewhere. Nothing is trained or measured for it; figures of results
that have not changed are taken from the last report (<folder>/report_cache).
"""


def is_for_report(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return _ACTION in words


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    rest = [word for word in words if word != _ACTION]
    return run_command("run.py", ReportSettings, rest, _help, _write)


def _help() -> str:
    return _HELP.format(settings=described(ReportSettings))


def _write(settings: ReportSettings) -> str:
    """Write the page; returns the text to print."""
    from .write import write_report

    return write_report(settings)
