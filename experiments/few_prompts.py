"""The number of distinct prompts that training needs, of looped models and of standard ones, and
whether it grows with the parameters. The paper is that of in_context.py."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, NotMeasured, hierarchical_bootstrap

from .evidence import Evidence, Trainings, groups, last, lowest, ratio
from .in_context import least_error
from .question import first_at_most

_LEARNED = 0.5  # of the error of predicting zero, which is 1 for linear functions
_BEYOND = 2  # times the most prompts: what a model counts with that needs more than these


def looped_over_standard(evidence: Evidence, place: int, best_rate: bool = True) -> Estimate:
    """The fewest distinct prompts after which the last query's error is at most half of that of
    predicting zero, looped over the deepest standard model.

    Models are those of one number of dimensions, whose `place` counts from the fewest, or from -1,
    the most. For each number of prompts a family is at its best rate, or else at the highest."""
    dims = _dims_at(evidence, place)
    layers = _standard_layers(evidence, dims)[-1]
    looped = _by_prompts(evidence, best_rate, family="looped", dims=dims)
    standard = _by_prompts(evidence, best_rate, family="standard", dims=dims, n_layer=layers)
    if looped.keys() != standard.keys():
        raise NotMeasured("looped and standard models of different numbers of prompts")
    numbers = list(looped)
    errors = [last(model) for model in (*looped.values(), *standard.values())]

    def statistic(means: Sequence[Floats]) -> Floats:
        of_looped = _fewest_prompts(means[: len(numbers)], numbers)
        of_standard = _fewest_prompts(means[len(numbers) :], numbers)
        return np.asarray(of_looped / of_standard)

    return hierarchical_bootstrap(errors, statistic, log=True)


def more_layers_over_fewer(evidence: Evidence, place: int) -> Estimate:
    """The last query's error on the fewest distinct prompts of a standard model over that of the
    one of the next fewer layers, the least over depths."""
    dims = _dims_at(evidence, place)
    models = []
    for layers in _standard_layers(evidence, dims):
        models.append(_on_fewest_prompts(evidence, family="standard", dims=dims, n_layer=layers))
    if len(models) < 2:
        raise NotMeasured("standard models of one number of layers only")
    return lowest([ratio([(more, fewer)], last) for fewer, more in pairwise(models)])


def one_layer_over_looped(evidence: Evidence, place: int) -> Estimate:
    """The last query's error on the fewest distinct prompts of a standard model of one layer over
    that of the looped model, which has as many parameters."""
    dims = _dims_at(evidence, place)
    single = _on_fewest_prompts(evidence, family="standard", dims=dims, n_layer=1)
    looped = _on_fewest_prompts(evidence, family="looped", dims=dims)
    return ratio([(single, looped)], last)


def _dims_at(evidence: Evidence, place: int) -> int:
    """The number of dimensions at a place, of two at least."""
    dims = sorted({member.config.task.dims for member in evidence.members})
    if len(dims) < 2:
        raise NotMeasured("fewer than two numbers of dimensions")
    return dims[place]


def _standard_layers(evidence: Evidence, dims: int) -> list[int]:
    """The numbers of layers of standard models, in rising order."""
    models = groups(evidence, family="standard", dims=dims)
    return sorted({model.config.model.n_layer for model in models})


def _by_prompts(evidence: Evidence, best_rate: bool, **settings: Any) -> dict[int, Trainings]:
    """The models with these settings by the number of distinct prompts, in rising order, each at
    the best of its rates or at the highest."""
    by_number: dict[int, list[Trainings]] = {}
    for model in groups(evidence, **settings):
        by_number.setdefault(model.config.task.distinct_prompts, []).append(model)
    rates = [
        {model.config.training.learning_rate for model in models} for models in by_number.values()
    ]
    if any(own != rates[0] for own in rates):
        raise NotMeasured("models of other rates at some numbers of prompts")
    highest_rate = partial(max, key=attrgetter("config.training.learning_rate"))
    choose = least_error if best_rate else highest_rate
    return {number: choose(by_number[number]) for number in sorted(by_number)}


def _on_fewest_prompts(evidence: Evidence, **settings: Any) -> Trainings:
    """The model with these settings of the fewest distinct prompts, at the highest rate."""
    by_number = _by_prompts(evidence, best_rate=False, **settings)
    return next(iter(by_number.values()))


def _fewest_prompts(means: Sequence[Floats], numbers: Sequence[int]) -> Floats:
    """The number of prompts at which the errors of these numbers, each [...], first fall to the
    level, by lines between logarithms."""
    errors = np.log(np.stack(means, -1))
    index = first_at_most(errors, math.log(_LEARNED))
    between = np.exp(np.interp(index, range(len(numbers)), np.log(numbers)))
    never = np.where(np.isnan(errors).any(-1), math.nan, _BEYOND * numbers[-1])
    return np.where(np.isnan(index), never, between)
