"""Run folders in a folder, and by names and patterns. No torch here.

runs_in(Path("runs")); named_runs(["runs/A", "runs/linear-*"])
"""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path

from reloop.conf.checks.folders import is_hidden
from reloop.conf.mistakes import ConfigError
from reloop.conf.saved import unpacked

_FILES = ("config.yaml", "status.json", "metrics.jsonl", "evaluation.json", "checkpoints")


def is_run(path: Path) -> bool:
    """Whether a folder looks like a run's: one without a config.yaml counts if it has two others of
    a run's files."""
    if path.name.startswith(".") or not path.is_dir():
        return False
    present = [name for name in _FILES if (path / name).exists()]
    return "config.yaml" in present or len(present) > 1


def runs_in(folder: Path) -> list[Path]:
    """The run folders in a folder and in the folders below it, in the order of their names; one
    that links name too, once."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if is_run(path):
            found.append(path)
        elif path.is_dir() and not is_hidden(path, folder):
            found += [below for below in sorted(path.iterdir()) if is_run(below)]
    first: dict[Path, Path] = {}
    for path in sorted(found, key=Path.is_symlink):
        first.setdefault(path.resolve(), path)
    return [path for path in found if first[path.resolve()] == path]


def named_runs(names: Sequence[str]) -> list[Path]:
    """The run folders of names and patterns; ConfigError for one that names none."""
    paths: list[Path] = []
    for name in names:
        found = [] if Path(name).is_dir() else [Path(match) for match in sorted(glob(name))]
        matches = found or [unpacked(name)]
        runs = [path for path in matches if is_run(path)]
        if not runs:
            problem = "fits no run folder" if "*" in name else "is no run folder"
            raise ConfigError("runs", f"cannot hold {name!r}: it {problem}")
        paths += [path for path in runs if path not in paths]
    return paths
