"""The settings of a report. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from reloop.conf.checks.folders import check_folder
from reloop.conf.mistakes import ConfigError
from reloop.conf.setting import check_settings, setting


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
