"""`python -m experiments.report`: one page of everything in the runs folder."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys

from reloop.conf.command import described, run_command
from reloop.experiments.report.settings import ReportSettings

_HELP = """\
Write one HTML page of what was measured: claims with verdicts and the commands that make them,
figures that answer to mouse and keyboard with the numbers behind each, comparisons, scaling laws,
training curves, the settings in which runs differ, and what they were made with.

  python -m experiments.report
  python -m experiments.report experiment=fig03
  python -m experiments.report 'runs=[runs/A,runs/linear-*]' output=PATH

Settings, with their defaults:
{settings}
The page loads nothing from elsewhere. Nothing is trained or measured for it; figures of results
that have not changed are taken from the last report (<folder>/report_cache).
"""


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_command("experiments.report", ReportSettings, words, _help, _write)


def _help() -> str:
    return _HELP.format(settings=described(ReportSettings))


def _write(settings: ReportSettings) -> str:
    """Write the page; returns the text to print."""
    from reloop.experiments.report.write import write_report

    return write_report(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
