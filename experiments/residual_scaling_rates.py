"""The place of the best learning rate by residual scaling and loops, on pairs of numbers and on
texts (arXiv 2606.18524, Figure 5)."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.evaluate_run import logged
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

from .evidence import Errors, Evidence, bits, groups, over_examples
from .fully_looped import ERROR, collapse, final_error, initial_error
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
    by_seed = np.array(
        [_lowest(x, np.where(complete, np.log(column), np.nan)) for column in errors.T]
    )
    at_ends = [place == end or bool((by_seed == x[end]).any()) for end in (0, len(rates) - 1)]
    return Optimum(place, by_seed, *at_ends)


def _lowest(x: Floats, y: Floats) -> float:
    """The vertex of the parabola through the least of y [rates] (may be NaN) and its neighbours;
    the rate of the least if it does not have both."""
    i = int(np.nanargmin(y))
    if i in (0, len(x) - 1) or not np.isfinite(y[i - 1 : i + 2]).all():
        return float(x[i])
    left, right = x[i] - x[i - 1], x[i + 1] - x[i]
    rise, fall = (y[i + 1] - y[i]) / right, (y[i] - y[i - 1]) / left
    if rise <= fall:  # a plateau: no vertex
        return float(x[i])
    return float(x[i] - (rise * left + fall * right) / (2 * (rise - fall)))


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
    mean, least = octaves.mean(), np.diff(np.log2(rates)).min(initial=np.inf) / 2
    moves = abs(mean) > _half(octaves) and abs(mean) >= least
    verdict = ("up" if mean > 0 else "down") if moves else "no movement"
    # Whether it may be less than measured, and whether it may be more.
    may_be_less, may_be_more = few.at_highest or many.at_lowest, few.at_lowest or many.at_highest
    if {"up": may_be_less, "down": may_be_more, "no movement": may_be_less or may_be_more}[verdict]:
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
    found = {_place(config): math.nan for config in unfinished}
    for run in runs:
        losses = np.array([each["loss"] for each in logged(run)]) / run.task.divisor
        lost = collapse(losses)
        found[_place(run.config)] = math.nan if lost else final_error(run, settings)
    names, loops, tried, seeds = (sorted(set(part)) for part in zip(*found, strict=True))
    scalings = [each for each in LABELS if each in names]

    def error_of(scaling: str, R: int, rate: float, seed: int) -> float:
        """The error of a run; that of one loop is any scaling's."""
        cells = [(each, R, rate, seed) for each in (scaling, *LABELS)[: None if R == 1 else 1]]
        return next((found[cell] for cell in cells if cell in found), math.nan)

    what = "normed in the loop, prompt added"
    if runs[0].config.model.norm == "at_readout":
        what = "no norm in the loop, no injection"
    result: dict[str, Any] = {
        "name": name,
        "what": what,
        **{"loops": loops, "rates": tried, "seeds": seeds, "steps": min(run.step for run in runs)},
        **{part: {} for part in ("errors", "best", "move", "gain")},
    }
    grid, errors = np.array(tried), dict[str, dict[int, Floats]]()
    for scaling in scalings:
        errors[scaling] = of = {
            R: np.array([[error_of(scaling, R, rate, s) for s in seeds] for rate in tried])
            for R in loops
        }
        optima = {R: optimum(grid, values) for R, values in of.items()}
        result["errors"][scaling] = {
            str(R): [list(map(finite, row)) for row in values] for R, values in of.items()
        }
        result["best"][scaling] = {
            str(R): peak and {"rate": tried[peak.place], "error": float(of[R][peak.place].mean())}
            for R, peak in optima.items()
        }
        result["move"][scaling] = movement(grid, optima[loops[0]], optima[loops[-1]])
    for scaling in scalings[:-1] if scalings[-1] == "linear" else ():
        both = errors[scaling], errors["linear"]
        result["gain"][scaling] = {str(R): gain(*(of[R] for of in both)) for R in loops}
    if not runs[0].task.is_text:
        alike = {(*_place(run.config)[:2], run.config.seed): run.config for run in runs}
        result["initial"] = float(np.mean([*map(initial_error, alike.values())]))
        task = runs[0].config.task
        result["bayes"] = bayes_error(task.dims, task.points)
    return result


def _place(config: Config) -> tuple[str, int, float, int]:
    """Scaling, number of loops, rate and seed."""
    rate = config.training.learning_rate
    return config.model.residual_scaling, trained_loops(config), rate, config.seed


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Error by rate, a panel for each scaling, a curve for each R with a point at its best rate;
    and the gain of 1/R by R, with its 95 % interval."""
    name = found["name"]
    what = found["what"]
    is_text = "bayes" not in found
    levels = dict[str, float]()
    if not is_text:
        levels = {"predicting zero, expected": 1.0, "least possible": found["bayes"]}
    by_rate = partial(
        Panel,
        x_label="learning rate",
        y_label="bits per byte" if is_text else ERROR,
        x=found["rates"],
        log="x" if is_text else "xy",
        levels=levels,
        picture="" if is_text else name,
    )
    drawn = []
    for scaling, by_loops in found["errors"].items():
        curves = loop_curves({int(R): np.array(of, float).T for R, of in by_loops.items()})
        for R, best in found["best"][scaling].items():
            if best:
                at: dict[str, Any] = {"x": [best["rate"]], "mean": [best["error"]], "points": True}
                file = f"r-{R}-best"
                curves.append(Curve(label=f"R = {R}", kind="loops", name=file, number=int(R), **at))
        errors = [error for of in by_loops.values() for row in of for error in row]
        lost = f"{errors.count(None)} of {len(errors)} runs collapsed or unfinished"
        title = f"{LABELS[scaling]}; {what}; {lost}"
        drawn.append(by_rate(f"{name}-{scaling}", title, curves=curves))
    moves = ", ".join(f"{scaling} {of['verdict']}" for scaling, of in found["move"].items())
    gains = []
    for before, by_loops in found["gain"].items():
        mean, half = (
            np.array([of.get(part, math.nan) for of in by_loops.values()])
            for part in ("mean", "half")
        )
        if np.isfinite(mean).any():
            interval = Interval(mean, mean - half, mean + half)
            gains.append(Curve.of(f"linear over {before}", before, interval))
    if gains:
        title = f"{what}, 95 %; the best rate by loops: {moves}"
        axes = ("loops R", f"gain in {'bits per byte' if is_text else 'error'} at the best rates")
        x, levels = found["loops"], {"none": 0.0}
        drawn.append(Panel(f"{name}-gain", title, *axes, x, gains, log="x", levels=levels))
    return drawn


def gain_of_linear(evidence: Evidence, over: str) -> Estimate:
    """The gain of 1/R over another scaling at the most loops, each at its best rate."""
    result = _learned(evidence)
    gains = _of_scaling(result["gain"], over)
    many = str(result["loops"][-1])
    return _by_seed(evidence, gains[many])


def rate_movement(evidence: Evidence, scaling: str) -> Estimate:
    """The octaves by which the best rate moves either way, from the fewest loops to the most."""
    result = _learned(evidence)
    return absolute(_by_seed(evidence, _of_scaling(result["move"], scaling)))


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
    estimate = over_seeds(sign * np.array(measured["by_seed"]))
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
    cells: dict[tuple[int, int], dict[float, Floats]] = {}
    for model in groups(evidence, residual_scaling="factored"):
        by_rate = cells.setdefault((model.config.model.n_layer, model.b), {})
        by_rate[model.config.training.learning_rate] = errors_of(model).mean(1)
    tried = sorted(set.intersection(*map(set, cells.values())))
    if len(cells) < 3 or len(tried) < 3:
        raise NotMeasured("too few layers, loops or rates whose runs all came through")
    rows = []
    for by_rate in cells.values():
        rows.append([by_rate[rate] for rate in tried])
    errors = np.array(rows)  # [cells, rates, seeds]
    shared = int(np.log(errors).mean((0, 2)).argmin())
    if shared in (0, len(tried) - 1):
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
