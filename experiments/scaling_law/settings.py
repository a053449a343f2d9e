"""The settings of `python -m experiments.scaling_law`. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from looplab.conf.checks.folders import check_folder
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting
from looplab.training.run_folder.status import is_run, runs_in


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
        if self.runs and self.table:
            raise ConfigError("runs", "cannot stand beside table=")
        if self.runs:
            run_folders(self.runs)
        elif self.table != "minima" and not Path(self.table).is_file():
            raise ConfigError("table", f"must be a CSV file or minima, got {self.table!r}")
        check_settings("", self)
        check_folder("folder", self.folder)


def run_folders(paths: Sequence[str]) -> list[Path]:
    """Each path that is a run folder, and the runs in each that is not, but for those that
    again=true set aside; each once. ConfigError for a path that neither is a run nor holds any."""
    folders = []
    for path in map(Path, paths):
        inside = [run for run in runs_in(path) if "-before-" not in run.name]
        runs = [path] if is_run(path) else inside
        if not runs:
            raise ConfigError("runs", f"names {path}, which neither is a run nor holds any")
        folders += runs
    return list(dict.fromkeys(folders))
