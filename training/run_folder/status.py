"""How far a run is, by its status.json, its lock and its metrics.jsonl. No torch here.

status_of(Path("runs/NAME"))["state"]
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import read_record
from .lock import is_held

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
