"""Fill a folder with checked tables, each once.

print(fetch(FetchSettings(tables=(720,), cache_dir="/data/openml")))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from tqdm import tqdm

from reloop.conf.mistakes import RunError

from ..settings import FetchSettings
from .catalogue import entry
from .csv_file import csv_origin, csv_table
from .download import openml_table
from .store import find_table, read_table, write_table
from .table import Table, TableError


def fetch(settings: FetchSettings) -> str:
    """Put every table that is not there, or not as it was written, into data_dir; what they hold,
    a paragraph each.

    Raises RunError for the first that cannot be had or used; those before it stay.
    """
    folder = Path(settings.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    said, new = [], 0
    with _alone(folder), tqdm(settings.tables, desc="tables", leave=False, disable=None) as bar:
        for which in bar:
            bar.set_postfix_str(str(which))
            try:
                table, fetched = _there(folder, which, settings)
            except TableError as error:
                raise RunError(f"tables: {error}") from None
            new += fetched
            said.append("\n".join(description(table)))
    total = f"{folder}: {len(said)} tables, {new} of them fetched now"
    return "\n".join([*said, "", total])


def description(table: Table) -> list[str]:
    """What a table holds, and below it what a reader of results should know, in lines."""
    openml_id = table.source.get("openml_id")
    rows = len(table.ys)
    shares = ", ".join(
        f"{name} {count:,} ({count / rows:.1%})"
        for name, count in zip(table.classes, table.counts, strict=True)
    )
    label = f"{openml_id} {table.name}" if openml_id else table.name
    first = f"{label}: {rows:,} rows, {len(table.features)} features; classes {shares}"
    known = entry(openml_id) if openml_id else None
    remarks = known.remarks(rows, len(table.features)) if known else []
    return [first, *(f"  {remark}" for remark in [*remarks, *table.source["notes"]])]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunError(f"{folder} is being filled by another process") from None
    try:
        yield
    finally:
        lock.release()


def _there(folder: Path, which: int | str, settings: FetchSettings) -> tuple[Table, bool]:
    """A table that is in the folder, and whether it had to be fetched."""
    kept = _kept(folder, which, settings.target)
    if kept is not None:
        return kept, False
    if isinstance(which, int):
        cache = Path(settings.cache_dir) if settings.cache_dir is not None else None
        table = openml_table(which, folder / ".openml", cache)
    else:
        table = csv_table(Path(which), settings.target)
    _refuse_namesake(folder, table)
    write_table(folder, table)
    return table, True


def _kept(folder: Path, which: int | str, target: str | None) -> Table | None:
    """The good copy of this very table, if the folder has one."""
    try:
        if isinstance(which, int):
            return None if find_table(folder, which) is None else read_table(folder, which)
        path = Path(which)
        if find_table(folder, path.stem) is None:
            return None
        table = read_table(folder, path.stem)
    except RunError:
        return None  # damaged: it is computed again
    origin = csv_origin(path, target)
    same = all(table.source[key] == origin[key] for key in ("url", "md5", "target"))
    return table if same else None


def _refuse_namesake(folder: Path, table: Table) -> None:
    """TableError where the folder holds another table under the same name."""
    try:
        other = read_table(folder, table.name).source if find_table(folder, table.name) else None
    except RunError:
        return  # damaged: it is computed again
    if other is not None and any(other[key] != table.source[key] for key in ("openml_id", "url")):
        raise TableError(
            f"{table.source['url']} would take the place of {other['url']}, which has the same "
            f"name, {table.name!r}; give it another, or another data_dir"
        )
