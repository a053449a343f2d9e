"""A job: make one trial of a search, whichever is next.

outcome = MakeTrial(search)()
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from reloop.conf.checks.machine import out_of_memory
from reloop.conf.mistakes import ConfigError, HeldElsewhere, RunError, one_line
from reloop.evaluation import evaluate
from reloop.evaluation.evaluate_run import stored
from reloop.training import Run, train
from reloop.training.jobs.queue import AGAIN
from reloop.training.run_folder.lock import is_locked
from reloop.training.run_folder.run import run_folder

from .definition import Search, text_of
from .pruning import falls_behind, mean_loss, rung_steps
from .study import Study, Trial

_T = TypeVar("_T")


@dataclass(frozen=True)
class MakeTrial:
    """Train the runs of a trial rung by rung, prune it or evaluate them, and end it. What a killed
    process left of a trial goes on, with the settings that it had."""

    search: Search

    @property
    def name(self) -> str:
        return self.search.name

    def __call__(self) -> Trial | None:
        """The trial as it ended; None where all are made. Raises HeldElsewhere where other
        processes make the last ones, and what `train` does; a run that diverges fails its trial."""
        study = Study(self.search)
        with ExitStack() as stack:
            trial = study.claim(stack)
            if trial is None:
                return None
            print(f"\ntrial {trial.number}: {text_of(trial.values)}", flush=True)
            try:
                self._carry_out(study, trial)
            except (ConfigError, RunError, RuntimeError, MemoryError) as error:
                if not self._is_its_own(error, trial):
                    raise
                study.fail(trial.number, one_line(error))
            return study.trial(trial.number)

    def describe(self, result: Trial | None) -> str:
        """The trial and its end."""
        if result is None:
            return "its last trials were made by other processes"
        if result.error is not None:
            ended = f"{self.search.error_name} {result.error:.4g}"
        else:
            ended = f"{result.state}, {result.reason}"
        return f"trial {result.number}, {text_of(result.values)}: {ended}"

    def _carry_out(self, study: Study, trial: Trial) -> None:
        configs = self.search.configs(trial.values)
        steps, first = configs[0].training.steps, 0
        reported = max(trial.losses, default=0)
        for rung in rung_steps(steps, self.search.settings.pruning):
            for config in configs:
                _when_free(partial(train, config, until=rung))
            losses = [mean_loss(run_folder(config), first, rung) for config in configs]
            loss, first = math.fsum(losses) / len(losses), rung
            if rung not in trial.losses and math.isfinite(loss):
                study.report(trial.number, rung, loss)
            if rung >= reported and self._falls_behind(study, trial.number, rung):
                study.prune(trial.number, f"loss {loss:.4g} at step {rung:,}")
                return
        runs = [_when_free(partial(train, config)) for config in configs]
        errors = [_when_free(partial(self._error, run)) for run in runs]
        error = math.fsum(errors) / len(errors)
        if not math.isfinite(error):
            study.fail(trial.number, "its error is not finite")
            return
        study.tell(trial.number, error)

    def _falls_behind(self, study: Study, number: int, rung: int) -> bool:
        losses = {each.number: each.losses[rung] for each in study.trials() if rung in each.losses}
        own = losses.pop(number, None)
        pruning = self.search.settings.pruning
        return own is not None and falls_behind(own, list(losses.values()), pruning)

    def _error(self, run: Run) -> float:
        """The error of a run that the search is for, measured now where it is not stored."""
        config = run.config
        result = stored(run, config.evaluation)
        result = result or evaluate(run, config.evaluation, config.device, config.figures)
        errors = [math.nan if e is None else e for e in result["by_examples"]["model_at_b"]["mean"]]
        return errors[-1] if self.search.settings.objective == "last" else _mean(errors)

    def _is_its_own(self, error: Exception, trial: Trial) -> bool:
        """Whether an error is of this trial's settings, not of the machine: they cannot be trained,
        the training diverged, or took too much memory."""
        causes = (error, error.__context__)
        if isinstance(error, ConfigError) or any(c and out_of_memory(c) for c in causes):
            return True
        states = [run_folder(each).status()["state"] for each in self.search.configs(trial.values)]
        return isinstance(error, RunError) and "failed" in states


def _mean(errors: Sequence[float]) -> float:
    return math.fsum(errors) / len(errors)


def _when_free(make: Callable[[], _T]) -> _T:
    """What `make` returns, once no other process works on its run: one that trains it by hand."""
    said = False
    while True:
        try:
            return make()
        except HeldElsewhere as held:
            if not said:
                print(f"{held}, waiting", flush=True)
            said = True
            time.sleep(AGAIN)
            while is_locked(held.lock):
                time.sleep(AGAIN)
