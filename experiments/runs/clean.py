"""`action=clean`: what run folders hold that can be computed again, or that killed processes left.
No torch here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from reloop.conf.mistakes import HeldElsewhere
from reloop.training.run_folder.files import half_written
from reloop.training.run_folder.find import runs_in
from reloop.training.run_folder.lock import holding, is_held, is_locked
from reloop.training.run_folder.status import status_of

from .settings import CleanSettings

_CACHE = "cache"
_PARTS = ("evaluation", "probing", "dynamics")  # of a run that other commands lock


class Removable(NamedTuple):
    """A file or a folder, why it can go, and its size in bytes."""

    path: Path
    why: str
    size: int


def clean(settings: CleanSettings) -> str:
    """Say what can go, and with `yes` remove it; the text to print. Runs that a process works in
    are left as they are."""
    found = [each for run in runs_in(Path(settings.folder)) for each in _of(run, settings.yes)]
    if not found:
        return f"nothing to remove in {settings.folder}"
    lines = [f"{each.path}  {_size(each.size)}  {each.why}" for each in found]
    total = f"{len(found):,} of them, {_size(sum(each.size for each in found))}"
    last = f"removed {total}" if settings.yes else f"{total}; yes=true removes them"
    return "\n".join([*lines, "", last])


def _of(run: Path, remove: bool) -> list[Removable]:
    """What can go from a run, or has gone; nothing where a process works in it."""
    if is_held(run) or any(is_locked(run / f".{part}.lock") for part in _PARTS):
        return []
    if not remove:
        return list(removable(run))
    try:
        with ExitStack() as held:
            for part in ("", *_PARTS):
                held.enter_context(holding(run, part))
            found = list(removable(run))
            for each in found:
                if each.path.is_dir():
                    shutil.rmtree(each.path)
                else:
                    each.path.unlink(missing_ok=True)
    except HeldElsewhere:  # since a moment ago
        return []
    return found


def removable(run: Path) -> Iterator[Removable]:
    """The cache of a finished run, which an evaluation makes again, and the partial files of
    processes that are gone."""
    cache = run / _CACHE
    if status_of(run)["state"] == "finished" and cache.is_dir():
        yield Removable(cache, "errors by prompt, computed again when asked for", _bytes(cache))
    for path in half_written(run, "**/*"):
        yield Removable(path, "half written by a process that is gone", _bytes(path))


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
