"""The quantities that decide claims of 'Looped Transformers are Better at Learning Learning
Algorithms' (arXiv 2311.12424), as far as they are numbers of runs.

Published numbers are those printed in the paper's notebooks (evaluation/published.json).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from torch import Generator

from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, NotMeasured, hierarchical_bootstrap, ratio_of
from looplab.models.flops import pass_costs
from looplab.tasks import SHIFTS
from looplab.tasks.least_squares import least_squares, ridge
from looplab.training.assemble import build_task

from .evidence import (
    Errors,
    Evidence,
    Trainings,
    after,
    at_b,
    check_same_prompts,
    counted,
    differing,
    farthest_from_one,
    group,
    groups,
    highest,
    largest_rise,
    last,
    lowest,
    over_examples,
    ratio,
    within,
)
from .flops import shapes_of
from .question import per_doubling

_STAYS = 1.5  # an error that grows by half is still of one size on the figures' axes
_FAR = 3  # times b: what an evaluation follows unless it is told more


Pair = tuple[Trainings, Trainings]


# The models of a row rise in what they differ in.
def _first_over_last(rows: Sequence[Sequence[Trainings]]) -> list[Pair]:
    return [(models[0], models[-1]) for models in rows]


def _last_over_first(rows: Sequence[Sequence[Trainings]]) -> list[Pair]:
    return [(models[-1], models[0]) for models in rows]


def _last_over_next(rows: Sequence[Sequence[Trainings]]) -> list[Pair]:
    return [(models[-1], models[-2]) for models in rows]


# Looped models beside standard ones.
def over_standard(evidence: Evidence, task: str) -> Estimate:
    """The mean error of the looped model of a task over that of the standard one."""
    return ratio([_largest(evidence, task)], over_examples)


def last_query_over_standard(evidence: Evidence, task: str) -> Estimate:
    """The last query's error of the looped model of a task over that of the standard one."""
    return ratio([_largest(evidence, task)], last)


def over_standard_on_shift(evidence: Evidence, task: str, shift: str) -> Estimate:
    """The mean error on shifted inputs, looped over standard."""
    return ratio([_largest(evidence, task)], _on(shift))


def _largest(evidence: Evidence, task: str) -> Pair:
    """The largest looped and the largest standard model of a task, trained on endless prompts."""
    looped = group(evidence, family="looped", name=task, distinct_prompts=0)
    standard = group(evidence, family="standard", name=task, distinct_prompts=0)
    return looped, standard


def _on(shift: str) -> Errors:
    """The errors on shifted inputs, [seeds, prompts]."""
    return partial(over_examples, name=f"{shift}/model_at_b")


def over_best_depth(evidence: Evidence, shift: str) -> Estimate:
    """The mean error on shifted inputs of the looped model of linear functions over that of the
    standard one that errs least at the last query in distribution.

    So the rival is not chosen by what is judged."""
    looped = group(evidence, family="looped", name="linear", distinct_prompts=0)
    standard = groups(evidence, family="standard", name="linear", distinct_prompts=0)
    best = least_error(standard)
    return ratio([(looped, best)], _on(shift))


def least_error(models: Sequence[Trainings]) -> Trainings:
    """The model that errs least at the last query."""

    def error(model: Trainings) -> float:
        return float(last(model).mean())

    return min(models, key=error)


def over_shallowest(evidence: Evidence, shift: str) -> Estimate:
    """The mean error on shifted inputs of the looped model of linear functions over that of the
    standard one of fewest layers."""
    looped = group(evidence, family="looped", name="linear")
    shallowest = _standard_by_layers(evidence)[0]
    return ratio([(looped, shallowest)], _on(shift))


def over_best_depth_on_each(evidence: Evidence, shifts: Sequence[str]) -> Estimate:
    """`over_best_depth` on the shifted inputs where it is least."""
    return lowest([over_best_depth(evidence, shift) for shift in shifts])


def over_shallowest_on_each(evidence: Evidence, shifts: Sequence[str]) -> Estimate:
    """`over_shallowest` on the shifted inputs where it is farthest from 1."""
    return farthest_from_one([over_shallowest(evidence, shift) for shift in shifts])


def deeper_over_shallower(evidence: Evidence, shift: str) -> Estimate:
    """The mean error on shifted inputs of a standard model over that of the one of the next fewer
    layers, where that is greatest."""
    neighbours = pairwise(_standard_by_layers(evidence))
    return highest([ratio([(deep, shallow)], _on(shift)) for shallow, deep in neighbours])


def last_query_on_shift_over_in_distribution(evidence: Evidence, shift: str) -> Estimate:
    """The looped model's error of the last query on shifted inputs over that in distribution.

    Without noise least squares has no error on either: both are excesses over it."""
    looped = group(evidence, family="looped", name="linear", distinct_prompts=0)
    shifted = partial(last, name=f"{shift}/model_at_b")
    return within([[looped]], [shifted], [last])


def _standard_by_layers(evidence: Evidence) -> list[Trainings]:
    """The standard models of linear functions, by layers, at least two."""
    models = groups(evidence, family="standard", name="linear", distinct_prompts=0)
    layers = {model.config.model.n_layer for model in models}
    if len(layers) < 2:
        raise NotMeasured("standard models of one number of layers only")
    return models


def looped_peak_over_deepest(evidence: Evidence) -> Estimate:
    """The peak of double descent of the looped model over that of the deepest standard one."""
    looped = group(evidence, family="looped", name="linear")
    return _peak_over(looped, _standard_by_layers(evidence)[-1])


def shallow_peak_over_deepest(evidence: Evidence) -> Estimate:
    """The peak of double descent of the shallowest standard model over that of the deepest."""
    models = _standard_by_layers(evidence)
    return _peak_over(models[0], models[-1])


def looped_peak_over_standard(evidence: Evidence) -> Estimate:
    """The peak of double descent of the looped model over that of the standard one."""
    return _peak_over(*_largest(evidence, "linear"))


def looped_peak_over_shallowest(evidence: Evidence) -> Estimate:
    """The peak of double descent of the looped model of most loops over that of the shallowest
    standard one."""
    looped = group(evidence, family="looped", name="linear")
    return _peak_over(looped, _standard_by_layers(evidence)[0])


def more_loops_peak_over_fewer(evidence: Evidence) -> Estimate:
    """The peak of double descent of a looped model over that of the one of the next smaller b,
    where that is greatest."""
    peaks = []
    for models in _by_loops(evidence, 2):
        peaks += [_peak_over(more, fewer) for fewer, more in pairwise(models)]
    return highest(peaks)


def from_ridge_over_from_least_squares(evidence: Evidence) -> Estimate:
    """Under noise the mean distance of the looped model's error from that of the best ridge
    regression over its mean distance from that of least squares, in logarithms, over one example
    and more."""
    looped = group(evidence, family="looped", name="linear", distinct_prompts=0)
    errors = looped.errors("noise/model_at_b")
    best_ridge = partial(ridge, penalty=1.0)  # the noise has variance 1, and so have the weights
    regularised = _under_noise(looped, best_ridge)
    unregularised = _under_noise(looped, least_squares)
    prompts = errors.shape[1]
    parts = [errors, regularised[:, :prompts], unregularised[:, :prompts]]

    def statistic(means: Sequence[Floats]) -> Floats:
        looped, regularised, unregularised = [np.log(mean[..., 1:]) for mean in means]
        from_ridge = np.abs(looped - regularised).mean(-1)
        from_least_squares = np.abs(looped - unregularised).mean(-1)
        return np.asarray(from_ridge / from_least_squares)

    return hierarchical_bootstrap(parts, statistic, log=True, trained=(True, False, False))


def _under_noise(model: Trainings, solve: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
    """A solver's errors on the noisy prompts of a model's evaluation, [1, prompts, examples]."""
    config = model.config
    task = build_task(config)
    generator = Generator().manual_seed(config.evaluation.seed)
    noise = SHIFTS["noise"]
    shifted = noise.sample(task, generator, config.evaluation.prompts, config.task.points)
    xs = shifted.prompts.xs.double().numpy()
    ys = shifted.prompts.ys.double().numpy()
    errors = np.square(solve(xs, ys, xs) - ys) / task.divisor
    return np.asarray(errors[None])


def _peak_over(model: Trainings, rival: Trainings) -> Estimate:
    d = model.config.task.dims
    peak = partial(_noisy, k=d)
    half = partial(_noisy, k=d // 2)
    last_query = partial(_noisy, k=-1)
    return within([(model, rival)], [peak], [half, last_query])


def _noisy(model: Trainings, k: int) -> Floats:
    """With noise, the errors after k examples, [seeds, prompts]."""
    return model.errors("noise/model_at_b")[..., k]


def over_standard_at_every_sparsity(evidence: Evidence) -> Estimate:
    """The mean error, looped over standard, at the least favourable sparsity.

    Its interval is the one of the greatest upper end, so that it lies below the line only if all
    do."""
    pairs = _looped_and_standard_by_sparsity(evidence)
    return highest([ratio([pair], over_examples) for pair in pairs])


def advantage_on_few_examples(evidence: Evidence) -> Estimate:
    """The mean error, standard less looped, over fewer than d examples less that over the others,
    at the least favourable sparsity; the first difference alone where it is smaller, so that
    neither is negative if this is not."""
    pairs = _looped_and_standard_by_sparsity(evidence)
    return lowest([_advantage_on_few_examples(*pair) for pair in pairs])


def _advantage_on_few_examples(looped: Trainings, standard: Trainings) -> Estimate:
    d = looped.config.task.dims

    def statistic(means: Sequence[Floats]) -> Floats:
        advantage = means[1] - means[0]
        on_few = advantage[..., :d].mean(-1)
        on_many = advantage[..., d:].mean(-1)
        return np.minimum(on_few, on_few - on_many)

    return hierarchical_bootstrap([looped.errors(), standard.errors()], statistic)


def _looped_and_standard_by_sparsity(evidence: Evidence) -> list[tuple[Trainings, Trainings]]:
    """The looped and the standard model of each of two sparsities at least."""
    by_sparsity = differing(evidence, _task, _is_standard, name="sparse_linear")
    if len(by_sparsity) < 2:
        raise NotMeasured("one sparsity only")
    return _first_over_last(by_sparsity)


def over_standard_on_few_prompts(evidence: Evidence) -> Estimate:
    """The last query's error of models trained on few distinct prompts, looped over standard, each
    family at the better of its learning rates, as in Figure 14."""
    pairs = []
    for models in differing(evidence, _task, _is_standard):
        if models[0].config.task.distinct_prompts:
            looped = [model for model in models if not _is_standard(model)]
            standard = [model for model in models if _is_standard(model)]
            pairs.append((least_error(looped), least_error(standard)))
    if not pairs:
        raise NotMeasured("no looped and standard model of the same number of distinct prompts")
    return ratio(pairs, last)


def _task(config: Config) -> object:
    return config.task


def _is_standard(model: Trainings) -> bool:
    return model.config.model.family == "standard"


# Looped models beside solvers.
def last_query_over_solvers(evidence: Evidence, task: str, solvers: Sequence[str]) -> Estimate:
    """The last query's error of the looped model over that of the best of these solvers."""
    return _over_best_solver(evidence, task, solvers, lambda errors: errors[..., -1])


def halfway_over_solvers(evidence: Evidence, task: str, solvers: Sequence[str]) -> Estimate:
    """The error after d/2 examples, looped over the best of these solvers."""
    return _over_best_solver(evidence, task, solvers, lambda errors: errors[..., _half_d(errors)])


def few_examples_over_solvers(evidence: Evidence, task: str, solvers: Sequence[str]) -> Estimate:
    """The mean error over 1 to d/2 - 1 examples, looped over the best of these solvers."""

    def on_few(errors: Floats) -> Floats:
        return errors[..., 1 : _half_d(errors)].mean(-1)

    return _over_best_solver(evidence, task, solvers, on_few)


def mean_over_solvers(evidence: Evidence, task: str, solvers: Sequence[str]) -> Estimate:
    """The mean error over all numbers of examples, looped over the best of these solvers."""
    return _over_best_solver(evidence, task, solvers, lambda errors: errors.mean(-1))


def last_query_of_solver_over(evidence: Evidence, task: str, solver: str, other: str) -> Estimate:
    """The last query's error of a solver over that of another."""
    looped = group(evidence, family="looped", name=task)
    errors = [looped.runs[0].errors(name)[None, :, -1] for name in (solver, other)]
    return ratio_of(errors)


def _half_d(errors: Floats) -> int:
    """Half of the dimensions, of errors [..., examples]: prompts have 2 d and the query."""
    return errors.shape[-1] // 4


def _over_best_solver(
    evidence: Evidence, task: str, solvers: Sequence[str], part: Callable[[Floats], Floats]
) -> Estimate:
    """A part of the errors, [seeds, prompts], looped over the best of the solvers that were run,
    which have no seeds."""
    looped = group(evidence, family="looped", name=task)
    arrays = looped.runs[0].arrays  # the same for all seeds
    theirs = []
    for solver in solvers:
        if solver in arrays:
            errors = np.asarray(arrays[solver], np.float64)
            theirs.append(part(errors[None]))
    if not theirs:
        raise NotMeasured(f"no errors of {' or '.join(solvers)}")
    best = min(theirs, key=np.mean)
    return ratio_of([part(looped.errors()), best], trained=(True, False))


def excess_over_least_squares(evidence: Evidence) -> Estimate:
    """The last query's error less that of least squares, the Bayes error, paired by prompt."""
    looped = group(evidence, family="looped", name="linear", distinct_prompts=0)
    least = looped.runs[0].errors("least_squares")[:, -1]
    return hierarchical_bootstrap([last(looped) - least], lambda means: means[0])


def least_excess_over_least_squares(evidence: Evidence) -> Estimate:
    """The last query's error after the best of all loops that were followed, less that of least
    squares."""
    looped = group(evidence, family="looped", name="linear", distinct_prompts=0)
    least_squares = looped.runs[0].errors("least_squares")[:, -1]
    by_loop = looped.errors("by_loop")

    def statistic(means: Sequence[Floats]) -> Floats:
        return means[0].min(-1) - means[1]

    return hierarchical_bootstrap([by_loop, least_squares[None]], statistic, trained=(True, False))


# From loop to loop.
def rise(evidence: Evidence, family: str) -> Estimate:
    """The largest factor by which the last query's error after a loop exceeds that after an earlier
    one, up to b."""
    model = group(evidence, family=family, name="linear")
    up_to_b = model.errors("by_loop")[..., : model.b]
    return hierarchical_bootstrap([up_to_b], largest_rise, log=True)


# Beyond the loops of training.
def growth(evidence: Evidence, family: str, times: int) -> Estimate:
    """The last query's error after so many times b loops over that after b."""
    models = groups(evidence, family=family, name="linear")
    return within([[model] for model in models], [after(times)], [at_b])


def growth_after_all_loops(evidence: Evidence, least: int) -> Estimate:
    """The looped models' error of the last query after the last loop that was followed, of so many
    times b at least, over that after b."""

    def after_all(model: Trainings) -> Floats:
        after(least)(model)  # refuses a model that was followed for fewer
        return model.errors("by_loop")[..., -1]

    models = groups(evidence, family="looped", name="linear")
    return within([[model] for model in models], [after_all], [at_b])


def change_beyond(evidence: Evidence, early: int, late: int) -> Estimate:
    """The looped model's error of the last query after `late` times b loops over that after `early`
    times b."""
    looped = group(evidence, family="looped", name="linear")
    return within([[looped]], [after(late)], [after(early)])


def least_error_after_all_loops(evidence: Evidence, family: str) -> Estimate:
    """The last query's error after the last loop that was followed, the least over models."""
    errors = []
    for model in groups(evidence, family=family, name="linear"):
        after_all = model.errors("by_loop")[..., -1]
        errors.append(hierarchical_bootstrap([after_all], lambda means: means[0], log=True))
    return lowest(errors)


def growth_at(evidence: Evidence, task: str, b: int, T: int) -> Estimate:
    """The growth from b to 3 b loops of the looped model of a task with this b and T."""
    model = group(evidence, family="looped", name=task, b=b, T=T)
    return within([[model]], [after(_FAR)], [at_b])


def growth_over(evidence: Evidence, task: str, other: str, b: int, T: int) -> Estimate:
    """The growth from b to 3 b loops of a task over that of another, both with this b and T."""
    parts = []
    # Prompts of two classes differ, so that to resample them together pairs nothing.
    for name in (task, other):
        model = group(evidence, family="looped", name=name, b=b, T=T)
        parts.append(np.stack([after(_FAR)(model), at_b(model)], -1))

    def statistic(means: Sequence[Floats]) -> Floats:
        growths = [mean[..., 0] / mean[..., 1] for mean in means]
        return growths[0] / growths[1]

    return hierarchical_bootstrap(parts, statistic, log=True)


def growth_at_most_loops(evidence: Evidence) -> Estimate:
    """The growth from b to 3 b loops at the largest b, the greatest over tasks and T."""
    models = [row[-1] for row in _by_loops(evidence, 2)]
    return highest([within([[model]], [after(_FAR)], [at_b]) for model in models])


def growth_at_fewest_loops_over_most(evidence: Evidence) -> Estimate:
    """The growth from b to 3 b loops at the smallest b over that at the largest, the least over
    T."""
    pairs = [(models[0], models[-1]) for models in _by_loops(evidence, 2)]
    return lowest([within([pair], [after(_FAR)], [at_b]) for pair in pairs])


def growth_without_injection_over_with(evidence: Evidence) -> Estimate:
    """The growth from b to 3 b loops of tied models over that of looped ones of the same b."""
    tied = {model.b: model for model in groups(evidence, family="tied", name="linear")}
    looped = groups(evidence, family="looped", name="linear")
    pairs = [(tied[model.b], model) for model in looped if model.b in tied]
    if not pairs:
        raise NotMeasured("no models with and without injection of the same b")
    return within(pairs, [after(_FAR)], [at_b])


def growth_at_largest_window(evidence: Evidence) -> Estimate:
    """The growth from b to 3 b loops at each b's largest T."""
    rows = [models[-1:] for models in _by_window(evidence)]
    return within(rows, [after(_FAR)], [at_b])


def growth_at_smallest_window_over_largest(evidence: Evidence) -> Estimate:
    """The growth from b to 3 b loops at each b's smallest T over that at its largest."""
    return within(_first_over_last(_by_window(evidence)), [after(_FAR)], [at_b])


def smallest_window_over_largest(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, at each b's smallest T over its largest."""
    return ratio(_first_over_last(_by_window(evidence)), at_b)


def smallest_window_over_largest_at_each_b(evidence: Evidence, task: str) -> Estimate:
    """The last query's error after b loops of a task, at the smallest T over the largest, the least
    over b."""
    rows = _by_window(evidence, name=task)
    return lowest([ratio([(models[0], models[-1])], at_b) for models in rows])


def _by_window(evidence: Evidence, **settings: Any) -> list[list[Trainings]]:
    """The looped models with these settings that differ in the window of the loss alone, in rising
    order of it."""

    def alike(config: Config) -> object:
        return config.task, config.model, config.loops.b

    def window(model: Trainings) -> int:
        return min(model.config.loops.T, model.b)

    return differing(evidence, alike, window, family="looped", **settings)


# By the loops of training.
def fewest_loops_over_next(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, at the smallest b over the next."""
    fewest, following, *_ = _at_largest_window(evidence, 2)
    return ratio([(fewest, following)], at_b)


def most_loops_over_next(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, at the largest of three b over the next."""
    models = _at_largest_window(evidence, 3)
    return ratio(_last_over_next([models]), at_b)


def most_loops_over_next_of_each(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, at the largest of three b over the next, of the task
    where that is farthest from 1."""
    pairs = [(models[-1], models[-2]) for models in _by_loops(evidence, 3)]
    return farthest_from_one([ratio([pair], last) for pair in pairs])


def most_loops_over_fewest_to_converge(evidence: Evidence) -> Estimate:
    """The loops to converge at the largest b over those at the smallest."""
    models = _at_largest_window(evidence, 2)
    return _loops_to_converge([(models[-1], models[0])])


def most_loops_over_next_to_converge(evidence: Evidence) -> Estimate:
    """The loops to converge at the largest of three b over those at the next."""
    models = _at_largest_window(evidence, 3)
    return _loops_to_converge(_last_over_next([models]))


def fewest_loops_over_as_many_layers(evidence: Evidence) -> Estimate:
    """The last query's error at the smallest b over that of a standard model of b layers."""
    looped = _at_largest_window(evidence, 2)[0]
    for standard in groups(evidence, family="standard", name="linear", distinct_prompts=0):
        if standard.b == looped.b:
            return ratio([(looped, standard)], last)
    raise NotMeasured(f"no standard model of {looped.b} layers")


def first_loops_over_last(evidence: Evidence) -> Estimate:
    """The last query's error of linear functions, mean over the loops of the loss, where these are
    all b over the next larger b at the same T."""
    for models in _by_loops(evidence, 2):
        first, later, *_ = models
        if first.config.task.name == "linear" and first.b == first.config.loops.T:
            return ratio([(first, later)], _over_window)
    raise NotMeasured("no models of linear functions with b = T and with b > T")


def _over_window(model: Trainings) -> Floats:
    """The last query's error, mean over the last T of b loops, [seeds, prompts]."""
    return model.errors("by_loop")[..., model.b - model.config.loops.T : model.b].mean(-1)


def most_loops_over_fewest(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, at the largest b over the smallest."""
    return ratio(_last_over_first(_by_loops(evidence, 2)), at_b)


def all_loops_over_three_quarters(evidence: Evidence) -> Estimate:
    """The last query's error after b loops over that after 3/4 b, at the largest b."""
    rows = [models[-1:] for models in _by_loops(evidence, 2)]
    return within(rows, [at_b], [after(3 / 4)])


def all_loops_over_three_quarters_at_largest_window(evidence: Evidence) -> Estimate:
    """The last query's error of linear functions after b loops over that after 3/4 b, at the
    largest T, and the largest b with it."""
    models = groups(evidence, family="looped", name="linear")
    converged = max(models, key=lambda model: (model.config.loops.T, model.b))
    return within([[converged]], [at_b], [after(3 / 4)])


def flops_by_loops(evidence: Evidence, training: bool) -> Estimate:
    """The factor by which the FLOPs of the looped models' training step, or else of their pass,
    grow with each doubling of b from T on, the least over neighbours at one T."""
    factors = []
    for models in _by_loops(evidence, 2):
        T = models[0].config.loops.T
        costs = pass_costs(shapes_of(models[0].config), 2 * models[0].config.task.points - 1)
        loops = [model.b for model in models if model.b >= T]
        flops = [costs.of_step(b, T, T) if training else costs.forward(b) for b in loops]
        factors += per_doubling(np.array(flops), np.array(loops)).tolist()
    if not factors:
        raise NotMeasured("no models that differ in b from T on")
    return counted(min(factors))


def _at_largest_window(evidence: Evidence, least: int) -> list[Trainings]:
    """Looped models of linear functions that differ in b alone, at the largest T that so many have,
    in rising order of b."""
    rows = [
        models for models in _by_loops(evidence, least) if models[0].config.task.name == "linear"
    ]
    if not rows:
        raise NotMeasured(f"fewer than {least} models of linear functions that differ in b alone")
    return max(rows, key=lambda models: models[0].config.loops.T)


def _by_loops(evidence: Evidence, least: int) -> list[list[Trainings]]:
    """The looped models that differ in b alone, at least so many at a time, in rising order."""

    def alike(config: Config) -> object:
        return config.task, config.model, config.loops.T

    return differing(evidence, alike, lambda model: model.b, least=least, family="looped")


def _loops_to_converge(pairs: Sequence[Pair]) -> Estimate:
    """The loops in which a model's error first comes within half of what it is after b, of the
    first of a pair over the second: the geometric mean over pairs."""
    curves = []
    for model in chain(*pairs):
        curves.append(model.errors("by_loop")[..., : model.b])

    def statistic(means: Sequence[Floats]) -> Floats:
        logs = [np.log(_first_near_last(mean)) for mean in means]
        differences = np.stack(logs[::2]) - np.stack(logs[1::2])
        return np.exp(differences.mean(0))

    return hierarchical_bootstrap(curves, statistic, log=True)


def _first_near_last(errors: Floats) -> Floats:
    """The loop, counted from 1, at which errors [..., loops] are first at most half above the last
    one."""
    return _first_loop_at_most(errors, _STAYS * errors[..., -1])


def _first_loop_at_most(errors: Floats, level: Floats) -> Floats:
    """The loop, counted from 1, at which errors [..., loops] are first at most a level, [...]: the
    one after the last where they never are, and nan where an error is."""
    reached = errors <= level[..., None]
    first = np.where(reached.any(-1), 1 + reached.argmax(-1), 1 + errors.shape[-1])
    return np.where(np.isnan(errors).any(-1), np.nan, first)


def loops_over_layers(evidence: Evidence, layers: Sequence[int] = ()) -> Estimate:
    """The first loop of the looped model of one layer whose error is at most that of a standard
    model as wide, over that model's layers: the least over models of these numbers of layers."""
    ratios = []
    for standard in groups(evidence, family="standard", name="linear", distinct_prompts=0):
        model = standard.config.model
        if model.n_layer in (layers or [model.n_layer]):
            block = {"n_layer": 1, "n_embd": model.n_embd, "n_head": model.n_head}
            looped = group(evidence, family="looped", name="linear", **block)
            ratios.append(_loops_over_layers(looped, standard))
    if not ratios:
        raise NotMeasured(f"no standard model of {layers} layers")
    return lowest(ratios)


def _loops_over_layers(looped: Trainings, standard: Trainings) -> Estimate:
    def statistic(means: Sequence[Floats]) -> Floats:
        return _first_loop_at_most(means[0], means[1]) / standard.b

    return hierarchical_bootstrap([looped.errors("by_loop"), last(standard)], statistic, log=True)


# By the shape of the block.
def one_layer_over_most_at_equal_depth(evidence: Evidence) -> Estimate:
    """The last query's error of one layer over that of the most layers after b loops, to which one
    is looped as many times more often as those have layers."""
    errors = []
    for one, most in _first_over_last(_by_size(evidence, "n_layer")):
        check_same_prompts(one, most)
        as_deep = after(most.config.model.n_layer / one.config.model.n_layer)
        errors += [as_deep(one), at_b(most)]
    return ratio_of(errors)


def most_layers_over_one_to_reach_it(evidence: Evidence) -> Estimate:
    """The loops in which the most layers come to the error that one has after b, over those in
    which one does."""
    curves = []
    pairs = _last_over_first(_by_size(evidence, "n_layer"))
    for model in chain(*pairs):
        curves.append(model.errors("by_loop")[..., : model.b])

    def statistic(means: Sequence[Floats]) -> Floats:
        ratios = []
        for most, one in zip(means[::2], means[1::2], strict=True):
            level = one[..., -1]
            ratios.append(_first_loop_at_most(most, level) / _first_loop_at_most(one, level))
        return np.exp(np.log(ratios).mean(0))

    return hierarchical_bootstrap(curves, statistic, log=True)


def most_heads_over_wide(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, of the most heads over the most of those that are as
    wide as the inputs have dimensions."""
    rows = _by_size(evidence, "n_head")
    return ratio([(models[-1], _most_wide_heads(models)) for models in rows], at_b)


def wide_heads_over(evidence: Evidence, heads: int) -> Estimate:
    """The last query's error after b loops, of the most heads that are as wide as the inputs have
    dimensions over so many heads."""
    for models in _by_size(evidence, "n_head"):
        for fewer in models:
            if fewer.config.model.n_head == heads:
                return ratio([(_most_wide_heads(models), fewer)], at_b)
    raise NotMeasured(f"no model of {heads} heads beside others that differ in nothing else")


def _most_wide_heads(models: Sequence[Trainings]) -> Trainings:
    """Of models in rising order of heads the last whose heads are as wide as the inputs have
    dimensions."""
    wide = []
    for model in models:
        width = model.config.model.n_embd / model.config.model.n_head
        if width >= model.config.task.dims:
            wide.append(model)
    if not wide:
        raise NotMeasured("no model whose heads are as wide as the inputs have dimensions")
    return wide[-1]


def widest_over_narrowest(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, of the widest block over the narrowest."""
    return ratio(_last_over_first(_by_size(evidence, "n_embd")), at_b)


def widest_over_next(evidence: Evidence) -> Estimate:
    """The last query's error after b loops, of the widest of three blocks over the next."""
    return ratio(_last_over_next(_by_size(evidence, "n_embd", least=3)), at_b)


def _by_size(evidence: Evidence, size: str, least: int = 2) -> list[list[Trainings]]:
    """The looped models that differ in a size of the block alone, at least so many at a time, in
    rising order of it."""
    others = [name for name in ("n_layer", "n_head", "n_embd") if name != size]

    def alike(config: Config) -> object:
        return config.task, config.loops, [getattr(config.model, name) for name in others]

    def value(model: Trainings) -> int:
        return int(getattr(model.config.model, size))

    return differing(evidence, alike, value, least=least, family="looped")


def one_recipe_over_tuned(evidence: Evidence, tasks: Sequence[str]) -> Estimate:
    """The mean error of the looped model with one recipe for these tasks, whose weights decay, over
    that of the one with the task's own b and T, the greatest over tasks."""
    ratios = []
    for task in tasks:
        rows = differing(evidence, _task, _decays, family="looped", name=task)
        ratios.append(ratio(_last_over_first(rows), over_examples))
    return highest(ratios)


def _decays(model: Trainings) -> bool:
    """Says whether weights decay in training."""
    return model.config.training.weight_decay > 0


def growing_loops_over_fixed(evidence: Evidence, **settings: Any) -> Estimate:
    """The mean error of looped models with these settings, with the schedule of b over without
    it."""

    def alike(config: Config) -> object:
        return config.task, config.model, config.loops, config.training.steps

    rows = differing(evidence, alike, _grows, family="looped", **settings)
    return ratio(_last_over_first(rows), over_examples)


def _grows(model: Trainings) -> bool:
    """Says whether the number of loops grows in training."""
    loops = model.config.loops
    start = model.config.curriculum.loops.start
    if start is None:
        start = min(loops.T, loops.b)
    return start < loops.b


# Least loops and windows by class.
def least_loops_over(evidence: Evidence, easy: str, hard: str, T: int) -> Estimate:
    """The least b whose error stays until 3 b, of one class over that of another, on the values of
    b that both have at this T."""

    def by_loops(task: str) -> dict[int, Trainings]:
        models = groups(evidence, family="looped", name=task, T=T)
        return {model.b: model for model in models}

    return _least_over(by_loops(easy), by_loops(hard), "b")


def least_window_over(evidence: Evidence, easy: str, hard: str, b: int) -> Estimate:
    """The least T whose error stays until 3 b, of one class over that of another, on the values of
    T that both have at this b."""

    def by_window(task: str) -> dict[int, Trainings]:
        models = groups(evidence, family="looped", name=task, b=b)
        return {model.config.loops.T: model for model in models}

    return _least_over(by_window(easy), by_window(hard), "T")


def _least_over(
    easy: Mapping[int, Trainings], hard: Mapping[int, Trainings], name: str
) -> Estimate:
    """The least value of a setting with which the error stays until 3 b, of one class over that of
    another, on the values that both have."""
    values = sorted(easy.keys() & hard.keys())
    if len(values) < 2:
        raise NotMeasured(f"fewer than two values of {name} that both classes have")
    far = after(_FAR)
    curves = []
    # Prompts of two classes differ, so that to resample them together pairs nothing.
    for models in (easy, hard):
        for value in values:
            curves.append(far(models[value]))
            curves.append(at_b(models[value]))

    def statistic(means: Sequence[Floats]) -> Floats:
        half = len(means) // 2
        of_easy = _least_that_stays(means[:half], values)
        of_hard = _least_that_stays(means[half:], values)
        return np.asarray(of_easy / of_hard)

    return hierarchical_bootstrap(curves, statistic, log=True)


def _least_that_stays(means: Sequence[Floats], values: Sequence[int]) -> Floats:
    """The least value whose error grows by less than half until 3 b; of `means` each pair is the
    error after 3 b and after b, in rising order of the values. Infinite where none is enough."""
    growth_by_value = np.stack(means[::2], -1) / np.stack(means[1::2], -1)
    stays = growth_by_value < _STAYS
    first = np.array(values, np.float64)[stays.argmax(-1)]
    return np.where(stays.any(-1), first, np.inf)
