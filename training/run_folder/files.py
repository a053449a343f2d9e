"""Writing files so that a reader finds the old one or the new one, never half of one; and reading
them so that what is damaged or altered is recognised.

write_record(path, "status", {"state": "running"}); read_record(path, "status").content
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from reloop.conf.checksum import checksum_of

_PARTIAL = ".partial"
_LEFT_BEHIND = 3600.0  # seconds after which a half-written file has no writer any more


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file, whole or not at all."""
    write_with(path, lambda file: file.write(content))


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` write a new file beside `path`, wait for the disk, rename it to `path`.

    The file beside it has a random name and must not exist before: a link that somebody placed
    there is never followed. Where writing fails it is removed.
    """
    beside = path.with_name(f"{path.name}.{secrets.token_hex(6)}{_PARTIAL}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(beside, flags, 0o666), "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compressed: bool = True) -> str:
    """Write numpy arrays as a .npz, whole or not at all; its sha256."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def remove_half_written(folder: Path) -> None:
    """Remove the files in a folder that a killed process had not finished writing."""
    for path in folder.glob(f"*{_PARTIAL}"):
        try:
            if time.time() - path.lstat().st_mtime > _LEFT_BEHIND:
                path.unlink()
        except OSError:
            continue


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON, whole or not at all."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON; None where there is no file that can be read, or none that is JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


class Record(NamedTuple):
    """What `read_record` found: the content, and what is wrong with the file where there is none
    ("" where there is no file). `sealed` is False for a file of an earlier version, which had no
    checksum."""

    content: dict[str, Any] | None
    problem: str = ""
    sealed: bool = True


def write_record(path: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write a JSON object with what it is (`kind`) and a checksum over all of it."""
    record = {"kind": kind, **json.loads(json.dumps(content))}
    write_json(path, record | {"checksum": checksum_of(record)})


def read_record(path: Path, kind: str) -> Record:
    """Read what `write_record` wrote, without its kind and checksum.

    A file that is no JSON object, was altered, or is of another kind has no content but a problem,
    in a few words. One without a checksum, as earlier versions wrote them, is taken as it is.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Record(None)
    except (OSError, ValueError, RecursionError) as error:
        return Record(None, f"{path} cannot be read ({type(error).__name__})")
    if not isinstance(found, dict):
        return Record(None, f"{path} is no JSON object")
    checksum, stated = found.pop("checksum", None), found.get("kind")
    if checksum is None and stated is None:
        return Record(found, sealed=False)
    if checksum != checksum_of(found):
        return Record(None, f"{path} was altered: its checksum does not fit")
    if stated != kind:
        return Record(None, f"{path} is {stated!r}, not {kind!r}")
    del found["kind"]
    return Record(found)
