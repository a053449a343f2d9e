"""Settings of `python -m openml_eval` and `action=fetch`. No torch, pandas or numpy here.

settings, configs = asked(["held_out=720", "model=looped", "training.steps=2000"])
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from looplab.conf.checks.folders import check_folder
from looplab.conf.checks.reach import check_reach
from looplab.conf.mistakes import ConfigError, nearest
from looplab.conf.saved import read_mapping
from looplab.conf.schema import Config
from looplab.conf.setting import check_settings, setting
from looplab.conf.words import settings_from_words

from .catalogue import IDS, TABLES

DATASETS = Path("org", "openml", "www", "datasets")  # of openml.org in an openml cache
_ENDING = re.compile(r"\.[ct]sv(\.gz)?$", re.IGNORECASE)
SHIPPED_CLASSIFIER = "classifier"
Protocol = Literal["corrected", "reference"]
Family = Literal["looped", "tied", "standard"]
ORDERS = 4  # of the columns, that an estimator's answers are averaged over


@dataclass(frozen=True)
class FetchSettings:
    """The tables, their source and the folder to store them in."""

    tables: tuple[int | str, ...] = setting(
        tuple(TABLES), "OpenML ids, and files with a header: .csv, .tsv, .csv.gz"
    )
    data_dir: str = setting("openml_data", "where the tables are stored")
    cache_dir: str | None = setting(None, "an openml cache to read from, in place of openml.org")
    target: str | None = setting(None, "the CSV files' column of classes; null: their last")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        names = [table_name(table) if isinstance(table, str) else table for table in self.tables]
        _check_once("tables", names)
        for table in self.tables:
            if isinstance(table, int):
                continue
            if not _ENDING.search(table):
                hint = f"; {table} is {IDS[table]}" if table in IDS else nearest(table, IDS)
                problem = f"holds {table!r}, neither an OpenML id nor a .csv file{hint}"
                raise ConfigError("tables", problem)
            if table_name(table) == "all" or table_name(table).isdecimal():
                problem = "whose name would stand for other tables: rename the file"
                raise ConfigError("tables", f"holds {table}, {problem}")
            if not Path(table).is_file():
                raise ConfigError("tables", f"holds {table}, and there is no such file")
        if self.target is not None and not any(isinstance(table, str) for table in self.tables):
            raise ConfigError("target", "is for CSV files; a table of OpenML has its own")
        if self.cache_dir is not None and not Path(self.cache_dir, DATASETS).is_dir():
            raise ConfigError("cache_dir", f"is {self.cache_dir}, which holds no folder {DATASETS}")
        check_folder("data_dir", self.data_dir)


def _check_once(name: str, values: Sequence[object]) -> None:
    """Raises ConfigError for a setting that holds a value twice, or a table by id and by name."""
    as_ids = [IDS.get(value, value) if isinstance(value, str) else value for value in values]
    for value in as_ids:
        if as_ids.count(value) > 1:
            raise ConfigError(name, f"holds {value} twice")


def table_name(path: Path | str) -> str:
    """The name of the table in a file."""
    return _ENDING.sub("", Path(path).name)


@dataclass(frozen=True)
class RunSettings:
    """The tables, and those of them that are held out one after another; the models; the scoring;
    and the number of processes."""

    held_out: tuple[int | str, ...] = setting(("all",), "OpenML ids and names, or all in turn")
    tables: tuple[int | str, ...] = setting(tuple(TABLES), "ids and names of those that take part")
    model: tuple[Family, ...] = setting(("looped", "standard"), "families of models")
    seeds: tuple[int, ...] | None = setting(None, "of training; null: seed=", at_least=0)
    protocol: Protocol = setting("corrected", "or reference: the published one, with its flaws")
    data_dir: str = setting("openml_data", "where the tables are stored")
    contexts: int = setting(64, "contexts that rows are answered from", at_least=1)
    draws: int | None = setting(
        None, "of these contexts; null: 2, by the reference's protocol 5", at_least=1
    )
    run: str | None = setting(
        None, "a run folder, or classifier, which ships: to be scored without any training"
    )
    n_orders: int = setting(ORDERS, "with run=: orders of the columns, averaged over", at_least=1)
    jobs: int | None = setting(
        None, "processes at once; null: one a core, one on a GPU", at_least=1
    )

    @property
    def draw_count(self) -> int:
        """The number of draws of contexts. Two are enough if all rows are queries: with as many
        rows as the ten tables have, an accuracy varies more with the rows than with the contexts.
        """
        return self.draws or (5 if self.protocol == "reference" else 2)

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        for name in ("held_out", "tables", "model", "seeds"):
            values = getattr(self, name)
            if values == ():
                raise ConfigError(name, "must hold at least one")
            _check_once(name, values or ())
        check_settings("", self)
        if self.run is not None:
            for name in ("model", "seeds", "protocol"):
                # A dataclass keeps a field's default as an attribute of the class.
                if getattr(self, name) != getattr(type(self), name):
                    raise ConfigError(name, "has no meaning with run=, which is scored as it is")
            if self.run != SHIPPED_CLASSIFIER:
                read_mapping(Path(self.run))
        elif self.n_orders != ORDERS:
            raise ConfigError("n_orders", "is for run=")
        elif len(self.tables) < 2:
            raise ConfigError("tables", "must hold at least two: one is held out of training")


def asked(words: Sequence[str]) -> tuple[RunSettings, dict[str, Config]]:
    """The settings of this command, and the configurations of its models by family, of which the
    other words are settings (as for run.py).

    Raises ConfigError for a mistake, as for a run's setting that follows from one of this command.
    """
    names = {field.name for field in fields(RunSettings)}
    own_words = [word for word in words if word.partition("=")[0] in names]
    rest = [word for word in words if word not in own_words]
    for key in (word.partition("=")[0] for word in rest):
        if key == "task":
            raise ConfigError(key, "is tables here")
        if (name := key.removeprefix("task.")) != key and name in names:
            raise ConfigError(key, f"is set by {name}=")
        if key == "seed" and any(word.startswith("seeds=") for word in own_words):
            raise ConfigError("seed", "cannot stand beside seeds=")
    settings = settings_from_words(RunSettings, own_words)
    settings.check()
    from looplab.conf.compose import commands

    configs: dict[str, Config] = {}
    for family in settings.model:
        (command,) = commands(["task=tables", f"model={family}", *rest])
        if command.again:
            raise ConfigError("again", "is for run.py: name the run there, by its settings")
        check_reach(command.config)
        configs[family] = command.config
    return settings, configs
