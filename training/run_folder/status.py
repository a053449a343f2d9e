"""Run folders in a folder; how far a run is, by its status.json, its lock and its metrics.jsonl;
and the lock, which one process at a time has. No torch here.

runs_in(Path("runs"))
status_of(Path("runs/NAME"))["state"]
with holding(Path("runs/NAME")): …
"""

import errno
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from looplab.conf.checks.folders import is_hidden
from looplab.conf.mistakes import ConfigError, HeldElsewhere, check_choice

from .files import read_record

STOPPED_EARLY = "stopped early"  # by a callback
STATES = ("running", "interrupted", "failed", STOPPED_EARLY, "finished")  # as they are written
_WAIT = 0.5  # seconds: `is_locked` in another process may hold a lock for a moment
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
_TAIL = 4096  # bytes of metrics.jsonl, of whose lines the last is read; one has about 300


def status_of(folder: Path) -> dict[str, Any]:
    """The run's status: `state` (new, running, interrupted, failed, stopped early, finished,
    stopped for one whose process has disappeared, or unknown), `step`, …"""
    record = read_record(folder / "status.json", "status")
    status = record.content
    if status is None:
        return {"state": "unknown" if record.problem else "new", "step": 0}
    if status.get("state") not in STATES or not isinstance(status.get("step"), int):
        return {"state": "unknown", "step": 0}
    # A process that was killed could not change its state, but its lock ended with it.
    if status["state"] == "running" and not is_locked(folder / ".lock"):
        return status | {"state": "stopped"}
    return status


def last_record(folder: Path) -> Mapping[str, Any]:
    """The last whole line of a run's metrics.jsonl; empty where there is none, or it is damaged."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            # After the last line's end comes an empty piece, or a line in the making.
            record = json.loads(file.read().split(b"\n")[-2])
    except (OSError, ValueError, IndexError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else {}


def curve_name(key: str, name: str) -> str:
    """by_examples or by_loop, as evaluation.json calls them, also from `examples`, `k`, `by_k` and
    `loop`. Raises ConfigError, naming the key, for any other name."""
    names = {"examples": "by_examples", "k": "by_examples", "loop": "by_loop"}
    short = name.removeprefix("by_")
    check_choice(key, short, names)
    return names[short]


def one_number(evaluation: Mapping[str, Any]) -> Any:
    """The content of evaluation.json gives the error of the last query after b loops, over the
    task's divisor; of a language model the bits per byte of its held-out text after b loops.

    None where that is not finite. Raises KeyError, IndexError or TypeError for a content of another
    form.
    """
    if "language" in evaluation:
        held_out = evaluation["language"]["texts"]["held_out"]
        return held_out["bits_per_byte"]["mean"][evaluation["b"] - 1]
    return evaluation["by_examples"]["model_at_b"]["mean"][-1]


def seconds_left(record: Mapping[str, Any], steps: int) -> float | None:
    """The seconds to the last of so many steps, by a line of metrics.jsonl; None where it has no
    rate."""
    rate = record.get("steps_per_second")
    return max(steps - int(record["step"]), 0) / rate if rate else None


def is_run(path: Path) -> bool:
    """Return whether a folder is a run's."""
    return not path.name.startswith(".") and (path / "config.yaml").exists()


def runs_in(folder: Path) -> list[Path]:
    """The run folders in a folder and in the folders below it, in the order of their names."""
    folders: list[Path] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if is_run(path):
            folders.append(path)
        elif path.is_dir() and not is_hidden(path, folder):
            folders += [below for below in sorted(path.iterdir()) if is_run(below)]
    return folders


@contextmanager
def holding(folder: Path, part: str = "", wait: float = _WAIT) -> Iterator[None]:
    """Lock the folder, created if absent, against other processes; or, with a name, that `part` of
    it alone: a run can be evaluated during its training. A lock that another process holds is
    waited for, `wait` seconds. It ends with its process, however that ends.

    Raises HeldElsewhere, naming the process that holds the lock, and ConfigError where the folder
    cannot be created, or its file system has no locks.
    """
    path = folder / (f".{part}.lock" if part else ".lock")
    lock = FileLock(path, fallback_to_soft=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=wait)
    except Timeout:
        holder = ""
        with suppress(OSError, UnicodeDecodeError):
            holder = path.read_text("utf-8")
        raise HeldElsewhere(folder, holder or "another process", path) from None
    except (OSError, NotImplementedError) as error:
        reason = str(error)
        if isinstance(error, NotImplementedError) or error.errno in _NO_LOCKS:
            reason = "its file system has no locks (NFS needs lockd or version 4, Lustre flock)"
        raise ConfigError("folder", f"cannot hold runs: {reason}") from None
    try:
        with suppress(OSError):  # a full disk: the lock holds all the same
            path.write_text("process {pid} on {host} since {time}".format(**writer()), "utf-8")
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Return whether some process holds this lock file now."""
    if not path.exists():
        return False
    lock = FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except (OSError, NotImplementedError):  # reported where the lock is needed
        return False
    lock.release()
    return False


def writer() -> dict[str, Any]:
    """This process and the time, for a file that names its writer."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "time": now}
