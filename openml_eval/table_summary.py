"""The tables that take part in leave-one-out, each checked once against its sha256.

held_out, everyone = evaluated_tables(RunSettings(held_out=(720,)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reloop.conf.mistakes import ConfigError
from reloop.training.run_folder.files import read_json

from .run_settings import RunSettings
from .tables.catalogue import entry
from .tables.store import check_tables, find_table, read_table


@dataclass(frozen=True)
class TableSummary:
    """A stored table without its rows; `remarks` is what a reader of results should know of it."""

    name: str
    openml_id: int | None
    rows: int
    features: int
    counts: tuple[int, int]
    sha256: str
    remarks: tuple[str, ...]

    @property
    def label(self) -> str:
        """Its id, where it has one, and its name."""
        return f"{self.openml_id} {self.name}" if self.openml_id else self.name

    @property
    def majority(self) -> float:
        """The share of its larger class."""
        return max(self.counts) / self.rows


def evaluated_tables(settings: RunSettings) -> tuple[list[TableSummary], list[TableSummary]]:
    """The tables that are held out, one after another, and all that take part.

    Raises RunError for one that is not stored or damaged, saying what fetches it; ConfigError where
    a table that is held out takes no part, or one takes part twice.
    """
    folder = Path(settings.data_dir)
    check_tables(folder, [_stem(which) for which in settings.tables])
    everyone = []
    for which in settings.tables:
        found = table_summary(folder, which)
        if found in everyone:
            raise ConfigError("tables", f"holds {found.name} twice")
        everyone.append(found)
    if settings.held_out == ("all",):
        return everyone, everyone
    held_out = [_among(everyone, which) for which in settings.held_out]
    for each in held_out:
        if held_out.count(each) > 1:
            raise ConfigError("held_out", f"holds {each.name} twice")
    return held_out, everyone


def table_summary(folder: Path, which: int | str) -> TableSummary:
    """A stored table by id, name or the CSV file it was read from; RunError as `read_table`."""
    which = _stem(which)
    table = read_table(folder, which)
    path = find_table(folder, which)
    assert path is not None
    known = entry(table.source["openml_id"]) if table.source.get("openml_id") else None
    rows, features = table.xs.shape
    remarks = known.remarks(rows, features) if known else []
    return TableSummary(
        name=table.name,
        openml_id=table.source.get("openml_id"),
        rows=rows,
        features=features,
        counts=table.counts,
        sha256=read_json(path)["sha256"],
        remarks=(*remarks, *table.source["notes"]),
    )


def _stem(which: int | str) -> int | str:
    """A CSV file's table goes by the file's name."""
    return Path(which).stem if isinstance(which, str) and which.endswith(".csv") else which


def _among(everyone: Sequence[TableSummary], which: int | str) -> TableSummary:
    wanted = which.removesuffix(".csv") if isinstance(which, str) else which
    for each in everyone:
        if wanted in (each.openml_id, each.name):
            return each
    known = ", ".join(str(each.openml_id or each.name) for each in everyone)
    raise ConfigError("held_out", f"cannot be {which!r}: the tables that take part are {known}")
