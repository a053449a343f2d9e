"""Carry out a search: make its trials, in this process and in any others that run the same command,
then write and print the result of all."""

from __future__ import annotations

from reloop.training.device import place
from reloop.training.jobs.cores import processes_for
from reloop.training.jobs.processes import Workers, run_jobs
from reloop.training.run_folder.lock import holding

from .definition import Search, check_space
from .job import MakeTrial
from .study import Study
from .summary import summarise
from .watch import SearchWatch

_SUMMARY_WITHIN = 600.0  # seconds that another process's summary of the same search is waited for


def run_search(search: Search) -> int:
    """Make the trials of a search; the exit code: 1 where a process failed, or every trial. Raises
    as `run_jobs`, and ConfigError where the folder cannot be locked, the device is not there, or a
    setting of the space does not bear on training."""
    first = search.first
    place(first.device, first.precision, first.backend)
    check_space(search)
    study = Study(search)
    at_once = processes_for(search.trials, search.settings.jobs, first)
    print(_beginning(search, at_once), flush=True)
    workers = Workers(at_once, search.folder / "logs")
    failures: dict[str, None] = {}
    before = None
    # A second time only where other processes had taken trials that they then left.
    while (left := study.left()) and left != before and not failures:
        outcomes = run_jobs([MakeTrial(search)] * left, workers, SearchWatch(study))
        failures = {each.failure: None for each in outcomes if each.failure}
        before = left
    with holding(search.folder, "summary", _SUMMARY_WITHIN):
        print(summarise(study, list(failures)), flush=True)
    return 1 if failures or not any(each.state == "done" for each in study.trials()) else 0


def _beginning(search: Search, at_once: int) -> str:
    times = "one at a time" if at_once == 1 else f"{at_once} at a time"
    text = f"{search.trials} trials, {times}; their result: {search.folder}"
    if search.trials < search.settings.trials:
        text += f"\nthe space has {search.trials} points: no more trials are made"
    return text + f", their output: {search.folder / 'logs'}" * (at_once > 1)
