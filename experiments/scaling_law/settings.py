"""The settings of `python -m experiments.scaling_law`. No torch here."""

from dataclasses import dataclass
from glob import glob
from pathlib import Path

from looplab.conf.checks.folders import check_folder
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import FigureSettings, TableSettings
from looplab.conf.setting import check_settings, setting


@dataclass(frozen=True)
class ScalingSettings:
    """The table, the fixed parameter E, and the bootstrap of the intervals."""

    table: str = setting("", "a CSV file, a pattern of run folders, or minima")
    changed: str = setting("", "models with one change, as a table: what it does to phi")
    size: float | None = setting(
        None, "parameters N: what so large a looped model is worth and costs", above=0
    )
    budget: float | None = setting(
        None, "FLOPs of training: the best size and loss for each r", above=0
    )
    E: float | None = setting(None, "the irreducible loss; null: fitted", at_least=0)
    clusters: tuple[str, ...] = setting((), "columns: rows alike in all are resampled together")
    resamples: int = setting(200, "of the bootstrap", at_least=20, at_most=1_000_000)
    seed: int = setting(0, "of the bootstrap", at_least=0)
    folder: str = setting("runs", "where the results are written")
    figures: FigureSettings = FigureSettings()
    tables: TableSettings = TableSettings()

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        _check_table("table", self.table)
        if self.changed:
            _check_table("changed", self.changed)
        check_settings("", self)
        check_folder("folder", self.folder)


def _check_table(key: str, value: str) -> None:
    """Raises ConfigError for what is no table."""
    if value == "minima":
        return
    for path in map(Path, glob(value)):
        if path.is_file() or (path / "config.yaml").is_file():
            return
    raise ConfigError(key, f"must be a CSV file, run folders or minima, got {value!r}")
