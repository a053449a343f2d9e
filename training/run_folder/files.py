"""Atomic writes, so that a reader gets the old file or the new one, never a partial one; and reads
that recognise damaged or altered files.

write_record(path, "status", {"state": "running"}); read_record(path, "status").content
"""

import hashlib
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from looplab.conf.checksum import checksum_of


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file atomically."""
    write_with(path, lambda file: file.write(content))


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` write a temporary file beside `path`, wait for the disk, rename it to `path`.

    The temporary file has a random name and must not exist before: an existing link is never
    followed. It is removed where writing fails.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}.partial")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # The new name is safe from a power loss only once its folder is on the disk.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compressed: bool = True) -> str:
    """Write numpy arrays as a .npz atomically; its sha256."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON atomically."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON; None where the file cannot be read, or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def list_names(names: Iterable[Any], most: int = 3) -> str:
    """The first few names, and the number of further ones."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


class Record(NamedTuple):
    """The result of `read_record`: the content, or the problem of the file ("" where there is no
    file). `sealed` is False for a file of an earlier version, without a checksum."""

    content: dict[str, Any] | None
    problem: str = ""
    sealed: bool = True


def write_record(path: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write a JSON object with its `kind` and a checksum over all of it. `content` has no key of
    these names."""
    assert not {"kind", "checksum"} & content.keys(), "a record's own keys"
    # As it will be read back, with lists for tuples and text for keys: the checksum is of that.
    record = {"kind": kind} | json.loads(json.dumps(content))
    write_json(path, record | {"checksum": checksum_of(record)})


def read_record(path: Path, kind: str) -> Record:
    """Read a file of `write_record`, without its kind and checksum.

    A file that is no JSON object, was altered, or is of another kind gives no content but a
    problem, in a few words. One of an earlier version, without a checksum, is not checked.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Record(None)
    except (OSError, ValueError, RecursionError) as error:
        return Record(None, f"{path} cannot be read ({type(error).__name__})")
    if not isinstance(content, dict):
        return Record(None, f"{path} is no JSON object")
    checksum = content.pop("checksum", None)
    stated_kind = content.get("kind")
    if checksum is None and stated_kind is None:
        return Record(content, sealed=False)
    if checksum != checksum_of(content):
        return Record(None, f"{path} was altered: its checksum does not fit")
    if stated_kind != kind:
        return Record(None, f"{path} is {stated_kind!r}, not {kind!r}")
    del content["kind"]
    return Record(content)
