"""What a run keeps of the data that its task reads: digests, and the files without which its model
cannot be used.

keep_data(path, task)                  # when training begins
changed_data(path, task)               # ["text"]: the file is another one today
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reloop.conf.mistakes import ConfigError
from reloop.tasks import Task

from .files import read_record, write_bytes, write_record

_NAME = "data"


def keep_data(path: Path, task: Task) -> None:
    """Keep what identifies the data of a run that begins in the folder `path`; nothing for a task
    that reads none."""
    if not (identity := task.data_identity()):
        return
    for name, text in task.kept_files().items():
        write_bytes(path / name, text.encode())
    content = {"identity": identity, "vocabulary": task.text_vocabulary}
    write_record(path / f"{_NAME}.json", _NAME, content)


def changed_data(path: Path, task: Task) -> list[str]:
    """The parts of the data that differ from those that the run in `path` began with, or cannot be
    read any more; empty for a run that has kept none."""
    kept = _kept(path).get("identity", {})
    if not kept:
        return []
    try:
        now = task.data_identity()
    except ConfigError:  # a file is no longer there
        now = {}
    return [part for part in kept | now if kept.get(part) != now.get(part)]


def kept_vocabulary(path: Path) -> int:
    """The vocabulary of the text that the run in `path` was trained on; 0 where it is not known."""
    return int(_kept(path).get("vocabulary", 0))


def _kept(path: Path) -> dict[str, Any]:
    return read_record(path / f"{_NAME}.json", _NAME).content or {}
