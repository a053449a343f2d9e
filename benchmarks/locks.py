"""What locks cost on a disk: to take and release a run, to touch its holder file, to look at a run
that another process holds.

    python -m benchmarks.locks folder=/shared/runs

docs/clusters.md says what follows for many machines.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from reloop.benchmarks.common import run_benchmark, write_report
from reloop.benchmarks.settings import LockSettings
from reloop.training.run_folder.lock import holding, is_locked


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("locks", LockSettings, words, __doc__, _run)


def _run(settings: LockSettings) -> None:
    """Time each operation, print a table, write."""
    Path(settings.folder).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=settings.folder) as name:
        folder = Path(name)

        def take_and_release() -> None:
            with holding(folder):
                pass

        milliseconds = {"take and release": _median(take_and_release, settings.times)}
        with holding(folder) as hold:
            milliseconds["heartbeat"] = _median(hold.touch, settings.times)
            look = _median(lambda: is_locked(folder / ".lock"), settings.times)
        milliseconds["look at a held run"] = look
    for operation, value in milliseconds.items():
        print(f"{operation:20} {value:7.3f} ms")
    write_report(settings.json, torch.device("cpu"), {"milliseconds": milliseconds})


def _median(operation: Callable[[], object], times: int) -> float:
    """Milliseconds of an operation, the median of `times`."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        operation()
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
