"""Tables on disk: numbers in `<name>.npz`, metadata with their sha256 in `<name>.json`.

write_table(Path("openml_data"), table); read_table(Path("openml_data"), 720)
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.training.run_folder.files import read_json, write_json, write_with

from .catalogue import ids_by_name
from .table import Source, Table, TableError


def write_table(folder: Path, table: Table) -> Path:
    """Store a table in an existing folder, replacing one of its name; returns the path of its JSON.

    An interruption leaves the old table, the new one, or (between the two files) one that
    `read_table` refuses. Raises TableError for a name that is no file name, OSError if writing
    fails.
    """
    if not re.fullmatch(r"\w[\w .,()+-]*", table.name):
        raise TableError(f"{table.name!r} cannot be a table's name: a file is named after it")
    numbers, path = folder / f"{table.name}.npz", folder / f"{table.name}.json"
    write_with(numbers, lambda file: np.savez(file, allow_pickle=False, xs=table.xs, ys=table.ys))
    content = {
        "schema_version": 1,
        "name": table.name,
        "rows": len(table.ys),
        "features": list(table.features),
        "classes": list(table.classes),
        "counts": list(table.counts),
        "source": asdict(table.source),
        "sha256": _sha256(numbers),
    }
    write_json(path, content)
    return path


def read_table(folder: Path, key: int | str) -> Table:
    """A table by its OpenML id or its name, checked against its sha256.

    Takes little more memory than the table. Raises RunError if there is none, with the command that
    fetches it, and for files that are altered or incomplete.
    """
    check_tables(folder, [key])
    path = find_table(folder, key)
    assert path is not None
    content, numbers = read_json(path), path.with_suffix(".npz")
    if not isinstance(content, dict) or "sha256" not in content:
        raise _damage(path, key, "it is no table's JSON")
    if not numbers.exists():
        raise _damage(numbers, key, "it is missing")
    if _sha256(numbers) != content["sha256"]:
        raise _damage(numbers, key, "its sha256 is not the one in its JSON")
    with np.load(numbers, allow_pickle=False) as arrays:
        xs, ys = arrays["xs"], arrays["ys"]
    source = Source(**{**content["source"], "notes": tuple(content["source"]["notes"])})
    features, classes = tuple(content["features"]), tuple(content["classes"])
    return Table(content["name"], features, xs, ys, classes, source)


def check_tables(folder: Path, keys: Sequence[int | str]) -> None:
    """Raises RunError, with the command that fetches them, if tables are missing."""
    missing = [each for each in keys if find_table(folder, each) is None]
    if missing:
        names, them = ", ".join(map(str, missing)), "it" if len(missing) == 1 else "them"
        raise RunError(
            f"{folder} holds no table {names}; {_fetch_command(folder, *missing)} puts {them} there"
        )


def find_table(folder: Path, key: int | str) -> Path | None:
    """The path of a table's JSON, by OpenML id or name; None if there is none."""
    if isinstance(key, str):
        path = folder / f"{key}.json"
        return path if path.exists() else None
    for path in sorted(folder.glob("[!.]*.json")):
        content = read_json(path)
        source = content.get("source") if isinstance(content, dict) else None
        if isinstance(source, dict) and source.get("openml_id") == key:
            return path
    return None


def _damage(path: Path, key: int | str, reason: str) -> RunError:
    command = _fetch_command(path.parent, key)
    return RunError(f"{path} is damaged ({reason}); {command} makes it again")


def _fetch_command(folder: Path, *keys: int | str) -> str:
    words = [
        str(key if isinstance(key, int) else ids_by_name().get(key, f"{key}.csv")) for key in keys
    ]
    tables = f"tables=[{','.join(words)}]" if len(words) > 1 else f"tables={words[0]}"
    command = ["python", "-m", "openml_eval", "action=fetch", tables, f"data_dir={folder}"]
    return f"`{shlex.join(command)}`"


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
