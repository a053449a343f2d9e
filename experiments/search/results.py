"""The trials of a search as tables, what their errors must be read with, and how much of the error
each setting accounts for."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reloop.conf.schema import Config
from reloop.evaluation.remarks import remarks
from reloop.evaluation.tables import Table
from reloop.tasks import Task
from reloop.training.assemble import build_task
from reloop.training.run_folder.run import run_folder

from .definition import Search
from .space import word_of
from .study import Study, Trial

_SHOWN = 5  # of the best trials


def best_first(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have an error, the least first."""
    return sorted((each for each in trials if each.error is not None), key=_error)


def importances(study: Study) -> dict[str, float]:
    """The share of the variance of the error over the space that each setting accounts for, alone
    and with others, by fANOVA (Hutter, Hoos and Leyton-Brown 2014); the largest first. Empty for
    less than two settings, and where the finished trials do not differ."""
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    done = best_first(study.trials())
    if len(study.search.parameters) < 2 or len(done) < 2 or _error(done[0]) == _error(done[-1]):
        return {}
    evaluator = FanovaImportanceEvaluator(seed=study.search.settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = get_param_importances(study.optuna, evaluator=evaluator)
        except (ValueError, RuntimeError):  # no trial apart from another in any setting
            return {}
    known = {key: float(value) for key, value in found.items()}
    return known if all(map(math.isfinite, known.values())) else {}


def trial_rows(search: Search, trials: Sequence[Trial]) -> Table:
    """A row for each trial, as plain numbers and words; a pruned one's runs are interrupted."""
    keys = [each.key for each in search.parameters]
    head = ["trial", "state", "step", "error", *keys, "runs", "reason"]
    rows = []
    for trial in trials:
        error = "" if trial.error is None else f"{trial.error:.6g}"
        values = [word_of(trial.values[key]) for key in keys]
        step, runs = step_of(search, trial), " ".join(paths(search, trial))
        rows.append([str(trial.number), trial.state, str(step), error, *values, runs, trial.reason])
    return Table(head, rows)


def best_table(search: Search, trials: Sequence[Trial]) -> Table:
    """The best trials, for the user."""
    keys = [each.key for each in search.parameters]
    rows = [
        [str(each.number), f"{each.error:.4g}", *(word_of(each.values[key]) for key in keys)]
        for each in best_first(trials)[:_SHOWN]
    ]
    return Table(["trial", search.error_name, *keys], rows)


def counts(search: Search, trials: Sequence[Trial]) -> str:
    """'9 of 12 trials done, 2 pruned, 1 failed'."""
    found = Counter(trial.state for trial in trials)
    text = f"{found.pop('done', 0)} of {max(search.trials, len(trials))} trials done"
    return ", ".join([text, *(f"{number} {state}" for state, number in found.items())])


def paths(search: Search, trial: Trial) -> list[str]:
    """The run folders of a trial; none for settings that cannot be trained."""
    try:
        return [str(run_folder(config).path) for config in search.configs(trial.values)]
    except ValueError:
        return []


def step_of(search: Search, trial: Trial) -> int:
    """The step of the run of a trial that is furthest behind."""
    try:
        return min(int(run_folder(c).status()["step"]) for c in search.configs(trial.values))
    except ValueError:
        return 0


def remarks_on(search: Search, trial: Trial) -> list[str]:
    """What the error of a trial must be read with today: code may have changed since."""
    lines = []
    for config in search.configs(trial.values):
        folder = run_folder(config)
        if folder.path.exists():
            step = int(folder.status()["step"])
            lines += remarks(_Trained(folder.path, config, build_task(config), step))
        else:
            lines.append(f"its run {folder.path} is no longer there")
    return list(dict.fromkeys(lines))


@dataclass(frozen=True)
class _Trained:
    """A run without its model."""

    path: Path
    config: Config
    task: Task
    step: int


def _error(trial: Trial) -> float:
    assert trial.error is not None
    return trial.error
