"""The trained models that come with the project: `shipped/linear` wherever a run folder is named.

unpacked("shipped/linear")               # runs/shipped/linear, a copy made at first use
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp

from .mistakes import ConfigError, nearest
from .schema import Config

_PREFIX = "shipped/"
SHELF = Path(__file__).parent.parent / "models" / "checkpoints"


def shipped_names() -> list[str]:
    """The names of the models that come with the project."""
    return sorted(path.parent.name for path in SHELF.glob("*/config.yaml"))


def unpacked(path: str | PathLike[str]) -> Path:
    """The run folder that a path names: for shipped/<name> a copy of that model in the current
    directory's runs/shipped/<name>, where its evaluations and probes go; else the path itself.

    Raises ConfigError for a name that does not ship, OSError where no copy can be written.
    """
    name = Path(path).as_posix()
    if not name.startswith(_PREFIX) or Path(name).is_dir():
        return Path(path)
    name = name.removeprefix(_PREFIX)
    known = shipped_names()
    if name not in known:
        there = ", ".join(_PREFIX + each for each in known) or "none"
        raise ConfigError(
            _PREFIX + name, f"does not ship{nearest(name, known)}; those that do: {there}"
        )
    copy = Path(Config.folder) / _PREFIX / name
    if not (copy / "config.yaml").exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(mkdtemp(prefix=f".{name}-", dir=copy.parent))
        try:
            shutil.copytree(SHELF / name, beside / name)
            with suppress(FileExistsError):  # another process was faster
                (beside / name).rename(copy)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return copy
