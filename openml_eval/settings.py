"""Settings of `action=fetch` and `action=ship`. No torch, pandas or openml here."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass
from pathlib import Path

from reloop.conf.checks.folders import check_folder
from reloop.conf.mistakes import ConfigError, check_choice, nearest
from reloop.conf.saved import read_config
from reloop.conf.setting import setting

from .tables.catalogue import TABLES, ids_by_name

DATASETS = Path("org", "openml", "www", "datasets")  # of openml.org in an openml cache
_ENDING = re.compile(r"\.[ct]sv(\.gz)?$", re.IGNORECASE)
SHIPPED_CLASSES = {"classifier": 2, "regressor": 0}  # of the checkpoints that ship; 0: regression


@dataclass(frozen=True)
class FetchSettings:
    """The tables, their source and the folder to store them in."""

    tables: tuple[int | str, ...] = setting(
        tuple(entry.openml_id for entry in TABLES),
        "OpenML ids, and files with a header: .csv, .tsv, .csv.gz",
    )
    data_dir: str = setting("openml_data", "where the tables are stored")
    cache_dir: str | None = setting(None, "an openml cache to read from, in place of openml.org")
    target: str | None = setting(None, "the CSV files' column of classes; null: their last")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        if not self.tables:
            raise ConfigError("tables", "must hold at least one OpenML id or CSV file")
        for table in self.tables:
            _check_table(table)
        names = [table_name(each) if isinstance(each, str) else each for each in self.tables]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError("tables", f"holds {name} twice")
        if self.target is not None and not any(isinstance(table, str) for table in self.tables):
            raise ConfigError("target", "is for CSV files; a table of OpenML has its own")
        if self.cache_dir is not None:
            self._check_cache(Path(self.cache_dir))
        check_folder("data_dir", self.data_dir)

    def _check_cache(self, cache: Path) -> None:
        if not (cache / DATASETS).is_dir():
            raise ConfigError("cache_dir", f"is {cache}, which holds no folder {DATASETS}")
        if Path(self.data_dir).resolve().is_relative_to(cache.resolve()):
            raise ConfigError("data_dir", f"cannot lie in cache_dir={cache}, which is only read")


def table_name(path: Path | str) -> str:
    """The name of the table in a file."""
    return _ENDING.sub("", Path(path).name)


def _check_table(table: int | str) -> None:
    if isinstance(table, int):
        if table < 1:
            raise ConfigError("tables", f"holds {table}, which is no OpenML id")
    elif not _ENDING.search(table):
        ids = ids_by_name()
        hint = f"; {table} is {ids[table]}" if table in ids else nearest(table, ids)
        raise ConfigError("tables", f"holds {table!r}, neither an OpenML id nor a .csv file{hint}")
    elif table_name(table) == "all" or table_name(table).isdecimal():
        problem = "whose name would stand for other tables: rename the file"
        raise ConfigError("tables", f"holds {table}, {problem}")
    elif not Path(table).is_file():
        raise ConfigError("tables", f"holds {table}, and there is no such file")


@dataclass(frozen=True)
class ShipSettings:
    """The run, and the checkpoint it becomes."""

    run: str = setting(MISSING, "the finished run")
    name: str = setting(MISSING, "classifier or regressor")

    def check(self) -> None:
        """Raises ConfigError for a name that no estimator has, and for a folder that is no run."""
        check_choice("name", self.name, SHIPPED_CLASSES)
        read_config(Path(self.run))
