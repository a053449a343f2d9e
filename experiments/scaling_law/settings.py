"""The settings of `python -m experiments.scaling_law`. No torch here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.conf.checks.folders import check_folder
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting
from looplab.training.run_folder.status import is_run

PUBLISHED = "minima"  # the name of the table that comes with the project


@dataclass(frozen=True)
class ScalingSettings:
    """The table or the runs, the fixed parameter E, and the bootstrap of the intervals."""

    table: str = setting("", "a CSV file, or the name of the published table")
    runs: tuple[str, ...] = setting((), "run folders, or folders of them")
    E: float | None = setting(None, "the irreducible loss; null: fitted", at_least=0)
    clusters: tuple[str, ...] = setting((), "columns: rows alike in all are resampled together")
    resamples: int = setting(200, "of the bootstrap", at_least=20, at_most=1_000_000)
    seed: int = setting(0, "of the bootstrap", at_least=0)
    folder: str = setting("runs", "where the results are written")
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        if self.runs:
            if self.table:
                raise ConfigError("runs", "cannot stand beside table=")
            run_folders(self.runs)
        elif not self.table:
            raise ConfigError("table", f"must name a CSV file, or {PUBLISHED}: table=runs.csv")
        elif self.table != PUBLISHED and not Path(self.table).is_file():
            raise ConfigError("table", f"must be a CSV file or {PUBLISHED}, got {self.table!r}")
        check_settings("", self)
        check_folder("folder", self.folder)


def run_folders(paths: Sequence[str]) -> list[Path]:
    """Each path that is a run folder, and the run folders directly inside each that is not, except
    those that again=true set aside; each once.

    Raises ConfigError for a path that neither is a run folder nor holds any.
    """
    folders: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise ConfigError("runs", f"must name folders, got '{path}'")
        inside = (each for each in path.iterdir() if not re.search(r"-before-\d+$", each.name))
        runs = [path] if is_run(path) else sorted(filter(is_run, inside))
        if not runs:
            raise ConfigError("runs", f"names {path}, which neither is a run nor holds any")
        for run in runs:
            folders.setdefault(run.resolve(), run)
    return list(folders.values())
