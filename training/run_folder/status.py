"""How far a run is, by its status.json and its lock. No torch here.

status_of(Path("runs/NAME"))["state"]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import read_record
from .lock import is_held

STATES = ("running", "interrupted", "failed", "finished")  # as they are written


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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
