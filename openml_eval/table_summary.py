"""The tables that take part in leave-one-out, each checked once against its sha256.

held_out, tables = evaluated_tables(RunSettings(held_out=(720,)))
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
    """A stored table without its rows; `remarks` are notes that its results must be read with."""

    name: str
    openml_id: int | None
    rows: int
    features: int
    counts: tuple[int, int]
    sha256: str
    remarks: tuple[str, ...]

    @property
    def label(self) -> str:
        """Its id, if it has one, and its name."""
        return f"{self.openml_id} {self.name}" if self.openml_id else self.name

    @property
    def majority(self) -> float:
        """The share of its larger class."""
        return max(self.counts) / self.rows


def evaluated_tables(settings: RunSettings) -> tuple[list[TableSummary], list[TableSummary]]:
    """The tables that are held out one after another, and all tables.

    Raises RunError for a table that is not stored or is damaged, with the command that fetches it;
    ConfigError for a held-out table that is not among the tables, or a table given twice.
    """
    folder = Path(settings.data_dir)
    check_tables(folder, [_stem(key) for key in settings.tables])
    tables = []
    for key in settings.tables:
        summary = table_summary(folder, key)
        if summary in tables:
            raise ConfigError("tables", f"holds {summary.name} twice")
        tables.append(summary)
    if settings.held_out == ("all",):
        return tables, tables
    held_out = [_select(tables, key) for key in settings.held_out]
    for table in held_out:
        if held_out.count(table) > 1:
            raise ConfigError("held_out", f"holds {table.name} twice")
    return held_out, tables


def table_summary(folder: Path, key: int | str) -> TableSummary:
    """A stored table by its id, its name or its CSV file; RunError as `read_table`."""
    key = _stem(key)
    table = read_table(folder, key)
    path = find_table(folder, key)
    assert path is not None
    openml_id = table.source.openml_id
    catalogue_entry = entry(openml_id) if openml_id else None
    rows, features = table.xs.shape
    remarks = catalogue_entry.remarks(rows, features) if catalogue_entry else []
    return TableSummary(
        name=table.name,
        openml_id=openml_id,
        rows=rows,
        features=features,
        counts=table.counts,
        sha256=read_json(path)["sha256"],
        remarks=(*remarks, *table.source.notes),
    )


def _stem(key: int | str) -> int | str:
    """The name of a CSV file's table; any other key unchanged."""
    return Path(key).stem if isinstance(key, str) and key.endswith(".csv") else key


def _select(tables: Sequence[TableSummary], key: int | str) -> TableSummary:
    name_or_id = key.removesuffix(".csv") if isinstance(key, str) else key
    for table in tables:
        if name_or_id in (table.openml_id, table.name):
            return table
    names = ", ".join(str(table.openml_id or table.name) for table in tables)
    raise ConfigError("held_out", f"cannot be {key!r}: the tables that take part are {names}")
