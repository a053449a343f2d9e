"""The settings of `python -m benchmarks.report`. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from reloop.conf.mistakes import ConfigError, check_path
from reloop.conf.setting import check_settings, setting


@dataclass(frozen=True)
class ReportSettings:
    """The folders that hold a report."""

    folders: tuple[str, ...] = setting(
        (), "of benchmarks/gpu_report.sh; of a part in several, the last counts"
    )

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        if not self.folders:
            raise ConfigError("folders", "must name at least one that gpu_report.sh has written")
        for folder in self.folders:
            check_path("folders", folder)
