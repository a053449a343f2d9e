"""`python run.py action=report`: one page of everything in the runs folder. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from looplab.conf.checks.folders import check_folder
from looplab.conf.command import described, run_command
from looplab.conf.mistakes import ConfigError
from looplab.conf.setting import check_settings, setting

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


@dataclass(frozen=True)
class ReportSettings:
    """What a report shows, and where it is written. Without `experiment` and `runs`: everything in
    `folder`."""

    experiment: str | None = setting(
        None, "one named experiment with its runs, or all of them; null: everything"
    )
    runs: tuple[str, ...] = setting((), "run folders, or patterns such as runs/linear-*")
    folder: str = setting("runs", "where runs, experiments and comparisons are")
    output: str = setting("report", "the folder that index.html is written into")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        if self.experiment is not None and self.runs:
            raise ConfigError("runs", "cannot be given beside experiment, which has its own runs")
        check_folder("output", self.output)


def is_for_report(words: Sequence[str]) -> bool:
    """Whether run.py's words are for this command."""
    return _ACTION in words


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    rest = [word for word in words if word != _ACTION]
    help_text = _HELP.format(settings=described(ReportSettings))

    def write(settings: ReportSettings) -> str:
        from .page import write_report

        return write_report(settings)

    return run_command("run.py", ReportSettings, rest, lambda: help_text, write)
