"""The place of the best learning rate by residual scaling and loops, on pairs of numbers and on
texts (arXiv 2606.18524, Figure 5)."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.statistics import (
    Estimate,
    NotMeasured,
    absolute,
    finite,
    half_width,
    over_seeds,
)
from looplab.show.panel import Curve, Panel
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .evidence import Errors, Evidence, bits, groups, highest, lowest, over_examples
from .fully_looped import ERROR, collapse, final_error, initial_error, logged_steps
from .near_init import LABELS, loop_curves
from .plateau import bayes_error

_WORST = 0.9  # of the error before training: above it a model is still on the plateau


class Optimum(NamedTuple):
    """The best learning rate: `place`, the index of the least mean error over seeds, and log2 of
    each seed's own, interpolated by a parabola; whether the mean's or a seed's is the lowest or the
    highest one tried, so that a better one may lie beyond."""

    place: int
    by_seed: Floats
    at_lowest: bool
    at_highest: bool


def optimum(rates: Floats, errors: Floats) -> Optimum | None:
    """The optimum of errors [rates, seeds], NaN for a run that diverged. A rate counts, for the
    mean and for each seed, if none of its runs diverged; None if there is no such rate."""
    complete = np.isfinite(errors).all(axis=1)
    if not complete.any():
        return None
    place = int(np.where(complete, errors.mean(axis=1), np.inf).argmin())
    x = np.log2(rates)
    lowest = []
    for column in errors.T:
        logs = np.where(complete, np.log(column), np.nan)
        lowest.append(_lowest(x, logs))
    by_seed = np.array(lowest)
    at_lowest = place == 0 or bool((by_seed == x[0]).any())
    at_highest = place == len(rates) - 1 or bool((by_seed == x[-1]).any())
    return Optimum(place, by_seed, at_lowest, at_highest)


def _lowest(x: Floats, y: Floats) -> float:
    """The vertex of the parabola through the least of y [rates] (may be NaN) and its neighbours;
    the rate of the least if it does not have both."""
    i = int(np.nanargmin(y))
    is_outermost = i in (0, len(x) - 1)
    if is_outermost or not np.isfinite(y[i - 1 : i + 2]).all():
        return float(x[i])
    left, right = np.diff(x[i - 1 : i + 2])
    fall, rise = np.diff(y[i - 1 : i + 2]) / (left, right)
    if rise <= fall:  # a plateau: no vertex
        return float(x[i])
    offset = (rise * left + fall * right) / (2 * (rise - fall))
    return float(x[i] - offset)


def movement(rates: Floats, few: Optimum | None, many: Optimum | None) -> dict[str, Any]:
    """The number of octaves by which the best rate moves from few loops to many, `by_seed`, and the
    `verdict`.

    It is up or down if the mean's 95 % interval excludes 0 and the mean is at least half the least
    step between rates, else no movement. A best rate at an end of those tried may lie beyond it:
    then the verdict is up or down only if that would add to the movement. Otherwise, for one seed,
    and if an optimum is missing, it is unknown, with the `reason`.
    """
    if few is None or many is None:
        return _unknown("no rate came through with every seed")
    octaves = many.by_seed - few.by_seed
    if len(octaves) < 2:
        return _unknown("one seed has no spread")
    mean = octaves.mean()
    steps = np.diff(np.log2(rates))
    least = steps.min(initial=np.inf) / 2
    verdict = "no movement"
    if abs(mean) > _half(octaves) and abs(mean) >= least:
        verdict = "up" if mean > 0 else "down"
    may_be_less = few.at_highest or many.at_lowest  # than measured
    may_be_more = few.at_lowest or many.at_highest
    is_open = may_be_less or may_be_more
    if verdict == "up":
        is_open = may_be_less
    elif verdict == "down":
        is_open = may_be_more
    if is_open:
        return _unknown("a best rate is the outermost that was tried")
    return {"verdict": verdict, "by_seed": octaves.tolist()}


def gain(before: Floats, after: Floats) -> dict[str, Any]:
    """The distance of errors `after` below those `before`, both [rates, seeds], each at its best
    rate: `by_seed`, their `mean`, and `half` the width of its 95 % interval; unknown, with the
    `reason`, for one seed and if one of them has no best rate."""
    rates = np.arange(1.0, len(before) + 1)  # only their order matters here
    first, second = optimum(rates, before), optimum(rates, after)
    if first is None or second is None:
        return _unknown("no rate came through with every seed")
    differences = before[first.place] - after[second.place]
    if len(differences) < 2:
        return _unknown("one seed has no spread")
    mean, half = float(differences.mean()), _half(differences)
    return {"mean": mean, "half": half, "by_seed": differences.tolist()}


def _half(values: Floats) -> float:
    """Half the width of the 95 % interval of the mean of two or more values, by Student's t."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    return float(half_width(error, len(values) - 1, level=0.95))


def _unknown(reason: str) -> dict[str, Any]:
    return {"verdict": "unknown", "reason": reason}


def measure(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    unfinished: Sequence[Config] = (),
    name: str = "rates",
) -> dict[str, Any]:
    """Compare residual scalings over learning rates, numbers of loops and seeds, by the error after
    b loops: of pairs of numbers over that of predicting zero, of texts bits per byte.

    By scaling and R: `errors` [rates][seeds], None where training collapsed or is not finished; and
    `best`, the best rate and its mean error, None where no rate came through with every seed.
    `move`: how far the best rate moves from the fewest loops to the most, by scaling. `gain`: that
    of 1/R over each other scaling, by R. `initial`, of pairs, is the error before training, and
    `bayes` the least possible one. One loop is the same for all scalings. `what` says what the loop
    does beside its blocks. The names of panels begin with the `name`.
    """
    errors = {_place(config): math.nan for config in unfinished}
    for run in runs:
        losses = np.array([record["loss"] for record in logged_steps(run)]) / run.task.divisor
        lost = collapse(losses)
        errors[_place(run.config)] = math.nan if lost else final_error(run, settings)
    names, loops, tried, seeds = (sorted(set(values)) for values in zip(*errors, strict=True))
    config = runs[0].config
    what = "normed in the loop, prompt added"
    if config.model.norm == "at_readout":
        what = "no norm in the loop, no injection"
    result: dict[str, Any] = {
        "name": name,
        "what": what,
        "loops": loops,
        "rates": tried,
        "seeds": seeds,
        "steps": min(run.step for run in runs),
        "errors": {},
        "best": {},
        "move": {},
        "gain": {},
    }
    grids: dict[str, dict[int, Floats]] = {}
    for scaling in LABELS:
        if scaling not in names:
            continue
        by_loops = {R: _grid(errors, scaling, R, tried, seeds) for R in loops}
        grids[scaling] = by_loops
        optima = {R: optimum(np.array(tried), grid) for R, grid in by_loops.items()}
        plain = {str(R): _finite_rows(grid) for R, grid in by_loops.items()}
        best = {str(R): _best(peak, tried, by_loops[R]) for R, peak in optima.items()}
        result["errors"][scaling] = plain
        result["best"][scaling] = best
        few = optima[loops[0]]
        many = optima[loops[-1]]
        result["move"][scaling] = movement(np.array(tried), few, many)
    linear = grids.pop("linear", None)
    if linear is not None:
        for scaling, by_loops in grids.items():
            gains = {str(R): gain(by_loops[R], linear[R]) for R in loops}
            result["gain"][scaling] = gains
    if not runs[0].task.is_text:
        result["initial"] = _mean_initial_error(runs)
        result["bayes"] = bayes_error(config.task.dims, config.task.points)
    return result


_Place = tuple[str, int, float, int]


def _grid(
    errors: Mapping[_Place, float],
    scaling: str,
    R: int,
    tried: Sequence[float],
    seeds: Sequence[int],
) -> Floats:
    """The errors [rates, seeds] of a scaling and R, NaN without a run; those of one loop are any
    scaling's."""
    scalings = [scaling, *LABELS] if R == 1 else [scaling]
    grid = np.full((len(tried), len(seeds)), np.nan)
    for (row, rate), (column, seed) in product(enumerate(tried), enumerate(seeds)):
        places = [(each, R, rate, seed) for each in scalings]
        known = [errors[place] for place in places if place in errors]
        if known:
            grid[row, column] = known[0]
    return grid


def _finite_rows(grid: Floats) -> list[list[float | None]]:
    return [list(map(finite, row)) for row in grid]


def _best(peak: Optimum | None, tried: Sequence[float], grid: Floats) -> dict[str, float] | None:
    """The best rate and its mean error, if there is one."""
    if peak is None:
        return None
    return {"rate": tried[peak.place], "error": float(grid[peak.place].mean())}


def _mean_initial_error(runs: Sequence[Run]) -> float:
    """The error before training, the mean over models; rates do not bear on it."""
    alike = {}
    for run in runs:
        scaling, loops, _, seed = _place(run.config)
        alike[scaling, loops, seed] = run.config
    return float(np.mean([initial_error(config) for config in alike.values()]))


def _place(config: Config) -> _Place:
    """Scaling, number of loops, rate and seed."""
    rate = config.training.learning_rate
    return config.model.residual_scaling, trained_loops(config), rate, config.seed


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Error by rate, a panel for each scaling, a curve for each R with a point at its best rate;
    and the gain of 1/R by R, with its 95 % interval."""
    drawn = [_by_rate(found, scaling) for scaling in found["errors"]]
    gains = []
    for scaling, by_loops in found["gain"].items():
        mean = _numbers(by_loops, "mean")
        half = _numbers(by_loops, "half")
        if np.isfinite(mean).any():
            interval = Interval(mean, mean - half, mean + half)
            gains.append(Curve.of(f"linear over {scaling}", scaling, interval))
    if gains:
        verdicts = [f"{scaling} {move['verdict']}" for scaling, move in found["move"].items()]
        title = f"{found['what']}, 95 %; the best rate by loops: {', '.join(verdicts)}"
        what = "bits per byte" if _is_text(found) else "error"
        axes = ("loops R", f"gain in {what} at the best rates")
        loops = found["loops"]
        levels = {"none": 0.0}
        name = f"{found['name']}-gain"
        drawn.append(Panel(name, title, *axes, loops, gains, log="x", levels=levels))
    return drawn


def _by_rate(found: Mapping[str, Any], scaling: str) -> Panel:
    """The errors of a scaling by rate."""
    by_loops = found["errors"][scaling]
    curves = loop_curves({int(R): np.array(rows, float).T for R, rows in by_loops.items()})
    for R, best in found["best"][scaling].items():
        if best:
            point: dict[str, Any] = {"x": [best["rate"]], "mean": [best["error"]], "points": True}
            file = f"r-{R}-best"
            curves.append(Curve(label=f"R = {R}", kind="loops", name=file, number=int(R), **point))
    errors = [error for rows in by_loops.values() for error in chain(*rows)]
    lost = f"{errors.count(None)} of {len(errors)} runs collapsed or unfinished"
    title = f"{LABELS[scaling]}; {found['what']}; {lost}"
    name = f"{found['name']}-{scaling}"
    rates = found["rates"]
    if _is_text(found):
        return Panel(name, title, "learning rate", "bits per byte", rates, curves, log="x")
    levels = {"predicting zero, expected": 1.0, "least possible": found["bayes"]}
    how = {"log": "xy", "levels": levels, "picture": found["name"]}
    return Panel(name, title, "learning rate", ERROR, rates, curves, **how)


def _is_text(found: Mapping[str, Any]) -> bool:
    return "bayes" not in found


def _numbers(by_loops: Mapping[str, Any], part: str) -> Floats:
    return np.array([values.get(part, math.nan) for values in by_loops.values()])


def gain_of_linear(evidence: Evidence, over: str) -> Estimate:
    """The gain of 1/R over another scaling at the most loops, each at its best rate."""
    result = _learned(evidence)
    gains = _of_scaling(result["gain"], over)
    many = str(result["loops"][-1])
    return _by_seed(evidence, gains[many])


def least_gain_of_linear(evidence: Evidence, over: str) -> Estimate:
    """The gain of 1/R over another scaling, each at its best rate, at the number of loops above one
    at which it is least certain to be one."""
    result = _learned(evidence)
    gains = _of_scaling(result["gain"], over)
    by_loops = [_by_seed(evidence, gains[str(R)]) for R in result["loops"] if R > 1]
    return lowest(by_loops)


def rate_of_fewest_over_best(evidence: Evidence, scaling: str) -> Estimate:
    """The error of the most loops at the best rate of the fewest, over that at its own best."""
    result = _learned(evidence)
    rates = np.array(result["rates"])
    of_scaling = _of_scaling(result["errors"], scaling)
    few = np.array(of_scaling[str(result["loops"][0])], np.float64)  # [rates, seeds]
    many = np.array(of_scaling[str(result["loops"][-1])], np.float64)
    best_of_few = optimum(rates, few)
    best_of_many = optimum(rates, many)
    if best_of_few is None or best_of_many is None:
        raise NotMeasured("no rate came through with every seed")
    ratios = many[best_of_few.place] / many[best_of_many.place]
    return _sized(evidence, over_seeds(ratios, log=True))


def rate_movement(evidence: Evidence, scaling: str) -> Estimate:
    """The octaves by which the best rate moves either way, from the fewest loops to the most."""
    result = _learned(evidence)
    return absolute(_by_seed(evidence, _of_scaling(result["move"], scaling)))


def distance_from_depth_rule(evidence: Evidence, scaling: str) -> Estimate:
    """The distance of the best rate's movement, over that of a rate in proportion to 1/√R, from
    1."""
    result = _learned(evidence)
    few, *_, many = result["loops"]
    by_rule = -math.log2(many / few) / 2
    moved = _by_seed(evidence, _of_scaling(result["move"], scaling))
    over_rule = [octaves / by_rule - 1 for octaves in moved[:3]]
    low, high = sorted(over_rule[1:])
    return absolute(moved._replace(mean=over_rule[0], low=low, high=high))


def rate_fall(evidence: Evidence, scaling: str) -> Estimate:
    """The octaves by which the best rate falls, from the fewest loops to the most."""
    result = _learned(evidence)
    return _by_seed(evidence, _of_scaling(result["move"], scaling), sign=-1)


def _learned(evidence: Evidence) -> Any:
    """The result; NotMeasured where models of pairs learned nothing."""
    result = evidence.result("residual_scaling_rates")
    if "initial" not in result:
        return result
    few = str(result["loops"][0])
    many = str(result["loops"][-1])
    for scaling, best in result["best"].items():
        for R in (few, many):
            if best[R] is None or best[R]["error"] > _WORST * result["initial"]:
                raise NotMeasured(f"{scaling}, R = {R}: still on the plateau at every rate")
    return result


def _of_scaling(by_scaling: Mapping[str, Any], scaling: str) -> Any:
    if scaling not in by_scaling:
        raise NotMeasured(f"no runs with residual_scaling={scaling}, or none with linear")
    return by_scaling[scaling]


def _by_seed(evidence: Evidence, measured: Mapping[str, Any], sign: int = 1) -> Estimate:
    """A movement or a gain; NotMeasured, with the reason, if it is unknown."""
    if "reason" in measured:
        raise NotMeasured(measured["reason"])
    return _sized(evidence, over_seeds(sign * np.array(measured["by_seed"])))


def _sized(evidence: Evidence, estimate: Estimate) -> Estimate:
    """The estimate with the size of models of pairs; of texts it rests on the evidence's runs."""
    result = evidence.result("residual_scaling_rates")
    if "initial" in result:
        return estimate._replace(steps=result["steps"], size="U = 1, d = 32")
    evidence.where(name="language")
    return estimate


def one_rate_over_best(evidence: Evidence) -> Estimate:
    """The error at the rate that is best for all U and R over the least of any rate."""
    return _one_rate(evidence, over_examples)


def one_rate_over_best_on_texts(evidence: Evidence) -> Estimate:
    """The bits per byte at the rate that is best for all U and R over the least of any rate."""
    return _one_rate(evidence, bits)


def _one_rate(evidence: Evidence, errors_of: Errors) -> Estimate:
    """Seed by seed, the largest over U and R; the one rate is that of the least geometric mean."""
    _, cells = _by_cell(evidence, errors_of)
    errors = np.array([*cells.values()])  # [cells, rates, seeds]
    errors = errors[:, np.isfinite(errors).all((0, 2))]
    number = errors.shape[1]
    if len(cells) < 3 or number < 3:
        raise NotMeasured("too few layers, loops or rates whose runs all came through")
    shared = int(np.log(errors).mean((0, 2)).argmin())
    if shared in (0, number - 1):
        raise NotMeasured("the best rate for all is the outermost that was tried")
    over_best = errors[:, shared] / errors.min(1)
    return over_seeds(over_best.max(0), log=True)


def deepest_rate_over_others(evidence: Evidence) -> Estimate:
    """The highest rate at which a model learns, of the most layers and loops over the median of the
    others, seed by seed; a run that learned nothing is none of the evidence's."""
    highest: dict[int, dict[tuple[int, int], float]] = {}  # rate by seed, then by layers and loops
    for member in evidence.where(residual_scaling="factored"):
        config = member.config
        cell = (config.model.n_layer, trained_loops(config))
        rates_of_seed = highest.setdefault(config.seed, {})
        before = rates_of_seed.get(cell, 0.0)
        rates_of_seed[cell] = max(config.training.learning_rate, before)
    tried = max(member.config.training.learning_rate for member in evidence.members)
    deepest = max(cell for rates_of_seed in highest.values() for cell in rates_of_seed)
    ratios = []
    for rates_of_seed in highest.values():
        if deepest not in rates_of_seed or len(rates_of_seed) < 2:
            raise NotMeasured("a model learned at no rate")
        if tried in rates_of_seed.values():
            raise NotMeasured("a model learns at the highest rate that was tried, too")
        others = [rate for cell, rate in rates_of_seed.items() if cell != deepest]
        ratios.append(rates_of_seed[deepest] / float(np.median(others)))
    return over_seeds(ratios, log=True)


def rate_movement_at_each_depth(evidence: Evidence) -> Estimate:
    """The octaves by which the best rate moves either way, from the fewest loops to the most, at
    the number of layers at which they may be most."""
    rates, cells = _by_cell(evidence, over_examples)
    movements = []
    for layers in sorted({layers for layers, _ in cells}):
        loops = [R for depth, R in cells if depth == layers]
        few = optimum(rates, cells[layers, min(loops)])
        many = optimum(rates, cells[layers, max(loops)])
        moved = movement(rates, few, many)
        if "reason" in moved:
            raise NotMeasured(f"U = {layers}: {moved['reason']}")
        movements.append(absolute(over_seeds(moved["by_seed"])))
    return highest(movements)


def _by_cell(evidence: Evidence, errors_of: Errors) -> tuple[Floats, dict[tuple[int, int], Floats]]:
    """The rates, and by numbers of layers and loops the errors [rates, seeds], NaN at a rate at
    which not all seeds learned."""
    cells: dict[tuple[int, int], dict[float, Floats]] = {}
    for model in groups(evidence, residual_scaling="factored"):
        by_rate = cells.setdefault((model.config.model.n_layer, model.b), {})
        by_rate[model.config.training.learning_rate] = errors_of(model).mean(1)
    tried = sorted(set().union(*cells.values()))
    seeds = max(len(errors) for by_rate in cells.values() for errors in by_rate.values())
    nothing = np.full(seeds, np.nan)
    errors_by_cell = {}
    for cell, by_rate in cells.items():
        rows = [by_rate.get(rate, nothing) for rate in tried]
        errors_by_cell[cell] = np.array([row if len(row) == seeds else nothing for row in rows])
    return np.array(tried), errors_by_cell
