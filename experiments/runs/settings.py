"""The settings of action=list. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reloop.conf.mistakes import ConfigError, check_choice
from reloop.conf.schema import TableSettings
from reloop.conf.setting import check_settings, setting

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
        check_runs_folder(self.folder)


def check_runs_folder(folder: str) -> None:
    """Raises ConfigError for a folder that is not there."""
    if not Path(folder).is_dir():
        raise ConfigError("folder", f"must be a folder with runs: there is no folder {folder}")
