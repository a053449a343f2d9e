"""Fetch tables into a folder, check them and store them.

print(fetch(FetchSettings(tables=(720,), cache_dir="/data/openml")))
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout
from tqdm import tqdm

from looplab.conf.mistakes import RunError

from ..settings import FetchSettings, table_name
from .csv_file import csv_table
from .download import openml_table
from .store import find_table, read_table, write_table
from .table import Table, TableError, list_names

_MOST_NAMES = 20  # of features that a description lists


def fetch(settings: FetchSettings) -> str:
    """Store every missing or damaged table in data_dir; returns a description of each table.

    Raises RunError for the first that cannot be fetched or used; those before it stay.
    """
    folder = Path(settings.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    descriptions, count = [], 0
    try:
        lock = FileLock(folder / ".lock").acquire(timeout=0)
    except Timeout:
        raise RunError(f"{folder} is being filled by another process") from None
    with lock, tqdm(settings.tables, desc="tables", leave=False, disable=None) as bar:
        for key in bar:
            bar.set_postfix_str(str(key))
            try:
                table, is_new = _get_table(folder, key, settings)
            except TableError as error:
                raise RunError(f"tables: {error}") from None
            count += is_new
            descriptions.append("\n".join(description(table)))
    total = f"{folder}: {len(descriptions)} tables, {count} of them fetched now"
    return "\n".join([*descriptions, "", total])


def description(table: Table) -> list[str]:
    """Lines on the content of a table, and below them its remarks."""
    openml_id = table.source.openml_id
    rows = len(table.ys)
    shares = ", ".join(
        f"{name} {count:,} ({count / rows:.1%})"
        for name, count in zip(table.classes, table.counts, strict=True)
    )
    label = f"{openml_id} {table.name}" if openml_id else table.name
    first = f"{label}: {rows:,} rows, {len(table.features)} features; classes {shares}"
    used = f"target {table.source.target}; features {list_names(table.features, _MOST_NAMES)}"
    return [first, *(f"  {remark}" for remark in [used, *table.remarks])]


def _get_table(folder: Path, key: int | str, settings: FetchSettings) -> tuple[Table, bool]:
    """A table that is in the folder afterwards, and whether it was fetched now."""
    name = key if isinstance(key, int) else table_name(Path(key))
    copy = _stored_copy(folder, name)
    if isinstance(key, int):
        if copy is not None:
            return copy, False
        cache = Path(settings.cache_dir) if settings.cache_dir is not None else None
        table = openml_table(key, folder / ".openml", cache)
    else:
        table = csv_table(Path(key), settings.target)
        if copy is not None and copy.source == table.source:  # its file and target
            return copy, False
    _check_name(folder, table)
    write_table(folder, table)
    return table, True


def _stored_copy(folder: Path, name: int | str) -> Table | None:
    """The undamaged copy of this table in the folder; None if there is none."""
    try:
        return None if find_table(folder, name) is None else read_table(folder, name)
    except RunError:
        return None  # damaged: it is fetched again


def _check_name(folder: Path, table: Table) -> None:
    """Raises TableError if the folder holds another table of the same name."""
    if find_table(folder, table.name) is None:
        return
    try:
        new, old = table.source, read_table(folder, table.name).source
    except RunError:
        return  # damaged: it is fetched again
    if (new.openml_id, new.url) != (old.openml_id, old.url):
        raise TableError(
            f"{new.url} would take the place of {old.url}, which has the "
            f"same name, {table.name!r}; give it another, or another data_dir"
        )
