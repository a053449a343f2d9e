"""The trials of a search, which processes on several machines make together.

study = Study(search)
with ExitStack() as stack:
    trial = study.claim(stack)         # a new one, or one whose process is gone; nobody else's
    study.tell(trial.number, 0.12)
"""

from __future__ import annotations

import multiprocessing
import socket
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reloop.conf.checksum import key_of
from reloop.conf.mistakes import ConfigError, HeldElsewhere
from reloop.training.run_folder.lock import holding, is_locked
from reloop.training.run_folder.run import run_folder

from .definition import Search
from .journal import journal, turn

TrialState = Literal["running", "done", "pruned", "failed"]
_STATES: Mapping[str, TrialState] = {
    "RUNNING": "running", "COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"
}  # fmt: skip
_LEFT_OUT, _REASON, _BEGUN = "left_out", "reason", "begun"
_DRAWS = 1000  # of settings that no earlier trial has
_BY_SAMPLER = 3  # of which the sampler's; the rest are drawn at random
_LOST = 8  # processes of one command that a trial may lose at one step


@dataclass(frozen=True)
class Trial:
    """A trial: its number, state and settings, its error once done, the training loss at its rungs
    by step, and why it failed or was pruned."""

    number: int
    state: TrialState
    values: Mapping[str, Any]
    error: float | None = None
    losses: Mapping[int, float] = field(default_factory=dict)
    reason: str = ""


class Study:
    """The trials of a search in its folder. Raises RunError where its journal cannot be read."""

    def __init__(self, search: Search) -> None:
        import optuna

        self.search, self._locks = search, search.folder / "trials"
        with turn(search.folder, "ask"):
            self.optuna = optuna.create_study(
                storage=journal(search.folder), study_name="search", load_if_exists=True
            )

    def trials(self) -> list[Trial]:
        """All trials in the order of their numbers, but for draws that became none."""
        return [self._trial(each) for each in self._frozen()]

    def claim(self, stack: ExitStack) -> Trial | None:
        """A trial for this process, whose lock `stack` holds: one whose process is gone, else a new
        one. None where all are made, HeldElsewhere where other processes work on the last ones."""
        with turn(self.search.folder, "ask"):
            self._leave_out()
            held: HeldElsewhere | None = None
            for trial in self.trials():
                if trial.state != "running":
                    continue
                try:
                    own = stack.enter_context(ExitStack())
                    own.enter_context(self._lock(trial.number))
                except HeldElsewhere as error:
                    held = error
                    continue
                if self._begin(trial):
                    return self.trial(trial.number)
                own.close()
            if len(self._frozen()) < self.search.trials and (number := self._ask()) is not None:
                stack.enter_context(self._lock(number))
                self._begin(self.trial(number))
                return self.trial(number)
        if held is not None:
            raise held
        return None

    def trial(self, number: int) -> Trial:
        """A trial as it is now."""
        return self._trial(self.optuna.get_trials(deepcopy=False)[number])

    def report(self, number: int, step: int, loss: float) -> None:
        """Keep the training loss of a trial at a rung."""
        self._handle(number).report(loss, step)

    def tell(self, number: int, error: float) -> None:
        """End a trial with its error."""
        self.optuna.tell(number, error)

    def prune(self, number: int, reason: str) -> None:
        """End a trial early."""
        self._end(number, "PRUNED", _REASON, reason)

    def fail(self, number: int, reason: str) -> None:
        """End a trial that has no error."""
        self._end(number, "FAIL", _REASON, reason)

    def left(self) -> int:
        """How many trials are still to be made or to be ended."""
        trials = self.trials()
        running = sum(trial.state == "running" for trial in trials)
        return max(self.search.trials - len(trials), 0) + running

    def lock_of(self, number: int) -> Path:
        """The lock file of a trial."""
        return self._locks / f".{number:04d}.lock"

    def _lock(self, number: int) -> Any:
        path = self.lock_of(number)
        if is_locked(path):  # without the wait of `holding`
            raise HeldElsewhere(self._locks, "another process", path)
        return holding(self._locks, path.name[1:].removesuffix(".lock"))

    def _frozen(self) -> list[Any]:
        trials = self.optuna.get_trials(deepcopy=False)
        return [each for each in trials if _LEFT_OUT not in each.user_attrs and self._drawn(each)]

    def _drawn(self, frozen: Any) -> bool:
        return frozen.params.keys() == {each.key for each in self.search.parameters}

    def _trial(self, frozen: Any) -> Trial:
        attributes, state = frozen.user_attrs, _STATES[frozen.state.name]
        return Trial(
            frozen.number,
            state,
            self.search.drawn(frozen.params),
            frozen.value if state == "done" else None,
            frozen.intermediate_values,
            attributes.get(_REASON, ""),
        )

    def _leave_out(self) -> None:
        """End draws whose process was killed before it had all settings, or saw that an earlier
        trial has them: draws are made under the lock that this process holds."""
        seen: list[Any] = []
        for frozen in self.optuna.get_trials(deepcopy=False):
            is_none = not self._drawn(frozen) or frozen.params in seen
            if frozen.state.name == "RUNNING" and is_none:
                self._end(frozen.number, "FAIL", _LEFT_OUT, "its process was killed")
            seen.append(frozen.params)

    def _ask(self) -> int | None:
        """The number of a new trial, whose settings no other one has; None where none is found."""
        space = {each.key: each.distribution() for each in self.search.parameters}
        for draw in range(_DRAWS):
            known = self.optuna.get_trials(deepcopy=False)
            self.optuna.sampler = self._sampler(len(known), draw >= _BY_SAMPLER)
            trial = self.optuna.ask(space)
            earlier = [each.number for each in known if each.params == trial.params]
            if not earlier:
                return int(trial.number)
            self._end(trial.number, "FAIL", _LEFT_OUT, f"has the settings of trial {earlier[0]}")
        return None

    def _sampler(self, number: int, at_random: bool) -> Any:
        """A sampler of its own for each draw, so that draws depend on nothing but the seed, their
        number and the trials before."""
        from optuna.exceptions import ExperimentalWarning
        from optuna.samplers import RandomSampler, TPESampler

        seed = int(key_of([self.search.settings.seed, number], 8), 16)
        if at_random or self.search.settings.sampler == "random":
            return RandomSampler(seed)
        startup = min(10, 2 * len(self.search.parameters) + 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            # constant_liar: settings unlike those that other processes are trying now.
            return TPESampler(seed=seed, n_startup_trials=startup, constant_liar=True)

    def _begin(self, trial: Trial) -> bool:
        """Count a process that begins with a trial: whether it may. A trial that several processes
        of one command were lost with at one step, as for lack of memory, has failed. (Those of a
        command that was itself killed are no fault of their trials.)"""
        frozen = self.optuna.get_trials(deepcopy=False)[trial.number]
        if frozen.state.name != "RUNNING":  # ended by its process just now
            return False
        try:
            step = sum(
                int(run_folder(each).status()["step"]) for each in self.search.configs(trial.values)
            )
        except ConfigError:  # the process that begins with it says so
            step = 0
        parent = multiprocessing.parent_process()
        now = [step, f"{socket.gethostname()} {parent.pid}" if parent else ""]
        *before, times = frozen.user_attrs.get(_BEGUN, [*now, 0])
        times = times + 1 if before == now else 1
        if times > _LOST:
            self.fail(trial.number, f"its process was lost {_LOST} times at step {step}")
            return False
        self._handle(trial.number).set_user_attr(_BEGUN, [*now, times])
        return True

    def _end(self, number: int, state: str, key: str, reason: str) -> None:
        from optuna.trial import TrialState as States

        self._handle(number).set_user_attr(key, reason)
        self.optuna.tell(number, state=States[state])

    def _handle(self, number: int) -> Any:
        """A trial as Optuna changes it: any process may, whichever began it."""
        from optuna.trial import Trial as Handle

        return Handle(self.optuna, self.optuna.get_trials(deepcopy=False)[number]._trial_id)
