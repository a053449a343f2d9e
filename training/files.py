"""Writing files so that a reader finds the old one or the new one, never half of one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file, whole or not at all."""
    write_with(path, lambda file: file.write(content))


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` write beside the file, wait for the disk, rename over it."""
    beside = path.with_name(path.name + ".partial")
    with open(beside, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON, whole or not at all."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON; None where there is no file, or one that somebody damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
