"""What other processes have done meanwhile for the same runs: read from run folders and from the
records of failures beside the logs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from reloop.training.jobs.cores import cores
from reloop.training.jobs.processes import Watch
from reloop.training.jobs.worker import Held, Outcome
from reloop.training.run_folder.files import file_system_time, read_record, write_record
from reloop.training.run_folder.holder import describe, read_holder
from reloop.training.run_folder.lock import holder_of, is_locked
from reloop.training.run_folder.run import RunFolder

from .job import TrainAndEvaluate, Wanted
from .shells import Shells
from .state import Estimates

_KIND = "failure"
_LOCKS = (".lock", ".evaluation.lock")


class RunWatch(Watch):
    """The runs of `jobs`, which are in `folder`. A run that finished or failed in another process
    after this one began is not begun again. `since` is when it began, in seconds since
    1970 by the clock of the file system."""

    def __init__(
        self, folder: Path, logs: Path, estimates: Estimates, shells: Shells, on_cpu: bool
    ) -> None:
        self._shells, self._most_threads = shells, torch.get_num_threads()
        self._on_cpu = on_cpu
        self.jobs: Sequence[TrainAndEvaluate] = ()
        self._failures = logs / "failures"
        self._failures.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        self.since = file_system_time(folder)
        self.left = estimates.left_now

    def known(self, index: int) -> Outcome | Held | None:
        job = self.jobs[index]
        failures = {str(run.path): reason for run in job.runs if (reason := self._failure(run))}
        if failures:
            text = "; ".join(dict.fromkeys(failures.values()))
            return Outcome(failure=text, reasons=failures)
        for run in job.runs if len(job.runs) == 1 else ():
            for name in _LOCKS:
                if is_locked(lock := run.path / name):
                    return Held(describe(read_holder(holder_of(lock))), lock)
        return Outcome(result=[]) if all(map(self._is_new, job.runs)) else None

    def wait_for(self) -> str:
        """The commands that began before, where their workers keep all cores of this one busy: more
        trainings at once than cores make all of them slower."""
        if not self._on_cpu or (workers := self._shells.workers_before()) < cores():
            return ""
        return f"{workers} processes of other shells keep the {cores()} cores of this machine busy"

    def threads(self, index: int) -> int | None:
        """Those that the job's run began with, so that it ends with the same numbers; for a new one
        its share of the cores among all workers on this machine, at most $OMP_NUM_THREADS."""
        made_with = RunFolder(self.jobs[index].runs[0].path).made_with() or {}
        begun = made_with.get("threads")
        if isinstance(begun, int) and 0 < begun <= cores():
            return begun
        return min(max(1, cores() // max(self._shells.workers(), 1)), self._most_threads)

    def log_name(self, index: int) -> str:
        return self.jobs[index].runs[0].path.name

    def ended(self, index: int, outcome: Outcome) -> None:
        for run in self.jobs[index].runs:
            path = self._failures / f"{run.path.name}.json"
            reason = outcome.reasons.get(str(run.path), "" if outcome.reasons else outcome.failure)
            with suppress(OSError):  # a full disk: the other processes try the run, too
                if reason:
                    write_record(path, _KIND, {"run": str(run.path), "reason": reason})
                else:
                    path.unlink(missing_ok=True)

    def _failure(self, run: Wanted) -> str:
        """Why a run failed in another process since this one began; else empty."""
        path = self._failures / f"{run.path.name}.json"
        if _written(path) < self.since:
            return ""
        return str((read_record(path, _KIND).content or {}).get("reason", ""))

    def _is_new(self, run: Wanted) -> bool:
        """Whether a run was trained and evaluated since this process began."""
        written = _written(run.path / "evaluation.json")
        return written >= self.since and RunFolder(run.path).status()["state"] == "finished"


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
