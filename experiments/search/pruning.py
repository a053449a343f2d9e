"""Which trials end early: at each rung the better part goes on.

prune = falls_behind(0.8, losses_of_others, PruningSettings(rungs=(0.25,), keep=0.5))

Optuna's median pruner compares the least loss of a trial so far with that of others at this step:
the loss of a growing curriculum rises again, so that an early one would carry a trial to its end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reloop.conf.checksum import checksum_of
from reloop.conf.mistakes import ConfigError
from reloop.conf.saved import read_mapping
from reloop.training.run_folder.metrics import Metrics
from reloop.training.run_folder.run import RunFolder

from .settings import PruningSettings


def rung_steps(steps: int, pruning: PruningSettings) -> list[int]:
    """The steps of the rungs of a training of so many steps, without its end."""
    found = {max(1, round(fraction * steps)) for fraction in pruning.rungs}
    return sorted(step for step in found if step < steps)


def falls_behind(loss: float, others: Sequence[float], pruning: PruningSettings) -> bool:
    """Whether a trial of this loss is not among the part that goes on, of itself and the others
    that have reached this rung."""
    if len(others) + 1 < pruning.after:
        return False
    better = sum(other < loss for other in others)
    return better >= math.ceil(pruning.keep * (len(others) + 1))


def mean_loss(folder: RunFolder, first: int, last: int) -> float:
    """The mean training loss of a run's steps after `first` up to `last`, by its metrics.jsonl; nan
    where that has none."""
    try:
        mapping = read_mapping(folder.path, lambda message: None)
    except ConfigError:
        return math.nan
    losses, weights, before = list[float](), list[int](), 0
    for record in Metrics(folder.metrics, checksum_of(mapping)).read()[0]:
        step, loss = int(record["step"]), record.get("loss")
        if first < step <= last and isinstance(loss, int | float):
            losses.append(float(loss))
            weights.append(step - max(before, first))  # a record is a mean since the one before
        before = step
    return float(np.average(losses, weights=weights)) if losses else math.nan
