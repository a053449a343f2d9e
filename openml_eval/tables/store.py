"""Tables on disk: `<name>.npz` for the numbers, `<name>.json` for what they are and their sha256.

write_table(Path("openml_data"), table); read_table(Path("openml_data"), 720)
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reloop.conf.mistakes import RunError, one_line
from reloop.training.run_folder.files import read_json, write_json, write_with

from .catalogue import ids_by_name
from .table import Table, TableError

SCHEMA_VERSION = 1


def write_table(folder: Path, table: Table) -> Path:
    """Keep a table in a folder that is there, over one of its name; the path of its JSON.

    What stands there is the old table, the new one, or (between two files) one that is refused.
    Raises TableError for a name that cannot be a file's, OSError where the disk refuses.
    """
    if not re.fullmatch(r"\w[\w .,()+-]*", table.name):
        raise TableError(f"{table.name!r} cannot be a table's name: a file is named after it")
    numbers, path = folder / f"{table.name}.npz", folder / f"{table.name}.json"
    write_with(numbers, lambda file: np.savez(file, allow_pickle=False, xs=table.xs, ys=table.ys))
    content = {
        "schema_version": SCHEMA_VERSION,
        "name": table.name,
        "rows": len(table.ys),
        "features": list(table.features),
        "classes": list(table.classes),
        "counts": list(table.counts),
        "source": dict(table.source),
        "sha256": _sha256(numbers),
    }
    write_json(path, content)
    return path


def read_table(folder: Path, which: int | str) -> Table:
    """A table by its OpenML id or its name, checked against its sha256.

    Beside the table itself, little memory is taken. Raises RunError where there is none, saying
    what fetches it, and for files that are altered, half or of a later version.
    """
    path = find_table(folder, which)
    if path is None:
        raise RunError(f"{folder} holds no table {which}; {_fetching(folder, which)} puts it there")
    return _read(path, which)


def check_tables(folder: Path, which: Sequence[int | str]) -> None:
    """Raises RunError, with the one command that fetches them, where some tables are absent."""
    absent = [each for each in which if find_table(folder, each) is None]
    if absent:
        names = ", ".join(map(str, absent))
        raise RunError(
            f"{folder} holds no table {names}; {_fetching(folder, *absent)} puts them there"
        )


def find_table(folder: Path, which: int | str) -> Path | None:
    """The path of a table's JSON, by OpenML id or name; None where there is none.

    Raises RunError where it may be the one of a file that cannot be read.
    """
    if isinstance(which, str):
        path = folder / f"{which}.json"
        return path if path.exists() else None
    unreadable = []
    for path, content in _contents(folder):
        if content is None:
            unreadable.append(path)
        elif content["source"].get("openml_id") == which:
            return path
    if unreadable:
        raise RunError(_damaged(unreadable[0], which, "it is no table's JSON"))
    return None


def stored_tables(folder: Path) -> list[str]:
    """The names of the tables that a folder holds, in order of their OpenML ids and names; those
    that cannot be read are left out."""
    found = [(content["source"], path.stem) for path, content in _contents(folder) if content]
    found.sort(key=lambda each: (each[0].get("openml_id") or float("inf"), each[1]))
    return [name for _, name in found]


def _contents(folder: Path) -> Iterator[tuple[Path, Mapping[str, Any] | None]]:
    """What each JSON of a folder says; None for those that cannot be read."""
    for path in sorted(folder.glob("*.json")):
        content = read_json(path)
        is_table = isinstance(content, dict) and isinstance(content.get("source"), dict)
        yield path, content if is_table else None


def _read(path: Path, which: int | str) -> Table:
    content, numbers = read_json(path), path.with_suffix(".npz")
    try:
        if content["schema_version"] > SCHEMA_VERSION:
            raise RunError(f"{path} was written by a later version, which reads it")
        sha256, rows = content["sha256"], content["rows"]
        described = {key: content[key] for key in ("name", "source")}
        described |= {key: tuple(content[key]) for key in ("features", "classes")}
    except (KeyError, TypeError):
        raise RunError(_damaged(path, which, "it is no table's JSON")) from None
    try:
        if _sha256(numbers) != sha256:
            raise RunError(_damaged(numbers, which, "its sha256 is not the one in its JSON"))
        with np.load(numbers, allow_pickle=False) as arrays:
            table = Table(xs=arrays["xs"], ys=arrays["ys"], **described)
    except FileNotFoundError:
        raise RunError(_damaged(numbers, which, "it is missing")) from None
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(_damaged(numbers, which, one_line(error))) from None
    if len(table.ys) != rows or list(table.counts) != content.get("counts"):
        raise RunError(_damaged(path, which, "it is of other rows than its .npz"))
    return table


def _damaged(path: Path, which: int | str, why: str) -> str:
    return f"{path} is damaged ({why}); {_fetching(path.parent, which)} makes it again"


def _fetching(folder: Path, *which: int | str) -> str:
    words = [
        str(each if isinstance(each, int) else ids_by_name().get(each, f"{each}.csv"))
        for each in which
    ]
    tables = f"tables=[{','.join(words)}]"
    tables = f"'{tables}'" if len(words) > 1 else tables
    return f"`python -m openml_eval action=fetch {tables} data_dir={folder}`"


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
