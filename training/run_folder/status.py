"""Run folders in a folder, and by names and patterns; how far a run is, by its status.json, its
lock and its metrics.jsonl. No torch here.

runs_in(Path("runs")); named_runs(["runs/A", "runs/linear-*"])
status_of(Path("runs/NAME"))["state"]
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from looplab.conf.checks.folders import is_hidden
from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import unpacked

from .files import read_record
from .lock import is_held

_FILES = ("config.yaml", "status.json", "metrics.jsonl", "evaluation.json", "checkpoints")
STATES = ("running", "interrupted", "failed", "finished")  # as they are written
_TAIL = 4096  # bytes of metrics.jsonl, of whose lines the last is read; one has about 300


def status_of(folder: Path) -> dict[str, Any]:
    """The run's status: `state` (new, running, interrupted, failed, finished, stopped for one whose
    process has disappeared, or unknown), `step`, …"""
    record = read_record(folder / "status.json", "status")
    status = record.content
    if status is None:
        return {"state": "unknown" if record.problem else "new", "step": 0}
    numbers = [status.get("step"), *(status.get(key, 0) for key in ("seconds", "cpu_seconds"))]
    if status.get("state") not in STATES or not all(map(_is_number, numbers)):
        return {"state": "unknown", "step": 0}
    if status["state"] == "running" and not is_held(folder):
        return status | {"state": "stopped"}
    return status


def last_record(folder: Path) -> Mapping[str, Any]:
    """The last whole line of a run's metrics.jsonl; empty where there is none."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            return record
    return {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
