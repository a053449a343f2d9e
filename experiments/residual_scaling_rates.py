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

from .claims import SUITE, Evidence, Paper
from .evidence import Errors, bits, groups, over_examples
from .fully_looped import ERROR, collapse, final_error, initial_error
from .near_init import LABELS, loop_curves
from .plateau import bayes_error


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


def rates(
    runs: Sequence[Run], settings: EvaluationConfig, unfinished: Sequence[Config] = ()
) -> dict[str, Any]:
    """Compare residual scalings over learning rates, numbers of loops and seeds, by the error after
    b loops: of pairs of numbers over that of predicting zero, of texts bits per byte.

    By scaling and R: `errors` [rates][seeds], None where training collapsed or is not finished; and
    `best`, the best rate and its mean error, None where no rate came through with every seed.
    `move`: how far the best rate moves from the fewest loops to the most, by scaling. `gain`: that
    of 1/R over each other scaling, by R. `initial`, of pairs, is the error before training, and
    `bayes` the least possible one. One loop is the same for all scalings. `what` says what the loop
    does beside its blocks.
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


def rates_panels(found: Mapping[str, Any]) -> list[Panel]:
    """Error by rate, a panel for each scaling, a curve for each R with a point at its best rate;
    and the gain of 1/R by R, with its 95 % interval. Their names begin with the `figure`."""
    figure = found["figure"]
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
        picture="" if is_text else figure,
    )
    drawn = []
    for scaling, by_loops in found["errors"].items():
        curves = loop_curves({int(R): np.array(of, float).T for R, of in by_loops.items()})
        for R, best in found["best"][scaling].items():
            if best:
                at: dict[str, Any] = {"x": [best["rate"]], "mean": [best["error"]], "points": True}
                name = f"r-{R}-best"
                curves.append(Curve(label=f"R = {R}", kind="loops", name=name, number=int(R), **at))
        errors = [error for of in by_loops.values() for row in of for error in row]
        lost = f"{errors.count(None)} of {len(errors)} runs collapsed or unfinished"
        title = f"{LABELS[scaling]}; {what}; {lost}"
        drawn.append(by_rate(f"{figure}-{scaling}", title, curves=curves))
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
        drawn.append(Panel(f"{figure}-gain", title, *axes, x, gains, log="x", levels=levels))
    return drawn


def _by_seed(evidence: Evidence, kind: str, scaling: str, sign: int = 1) -> Estimate:
    """A movement, or the gain at the most loops; NotMeasured, with the reason, if it is unknown, or
    if models of pairs learned nothing."""
    result = evidence.result("residual_scaling")
    ends = str(result["loops"][0]), str(result["loops"][-1])
    for each, best in result["best"].items() if "initial" in result else ():
        for R in ends:
            if best[R] is None or best[R]["error"] > 0.9 * result["initial"]:
                raise NotMeasured(f"{each}, R = {R}: still on the plateau at every rate")
    if scaling not in result[kind]:
        raise NotMeasured(f"no runs with residual_scaling={scaling}, or none with linear")
    found = result[kind][scaling][ends[1]] if kind == "gain" else result[kind][scaling]
    if "reason" in found:
        raise NotMeasured(found["reason"])
    estimate = over_seeds(sign * np.array(found["by_seed"]))
    if "initial" in result:
        return estimate._replace(steps=result["steps"], size="U = 1, d = 32")
    evidence.where(name="language")
    return estimate


def _claims(of_paper: Paper, less: str, those: str, published: str, ends: str) -> None:
    """The claims on 1/R and 1/√R: those which pairs of numbers and texts share."""
    of_figure = partial(of_paper.claim, figure="Figure 5")
    beside = SUITE._replace(prefix=of_paper.prefix)
    in_suite = partial(beside.claim, figure="beside Figure 5 of arXiv 2606.18524")
    errors = less.partition(" ")[2]
    labels = {"sqrt": "1/√R", "none": "no scaling"}
    for scaling in labels if errors == "bits per byte" else ("sqrt",):
        label, is_sqrt = labels[scaling], scaling == "sqrt"
        (of_figure if is_sqrt else in_suite)(
            "linear_gains" if is_sqrt else "linear_gains_over_none",
            f"At its best learning rate 1/R has {less} than {label} with many loops.",
            quantity=f"least {errors} with {label} less {those} with 1/R, at the most loops",
            above=0.0,
            published=published if is_sqrt else "",
        )(partial(_by_seed, kind="gain", scaling=scaling))
        in_suite(
            f"{scaling}_rate_falls",
            f"With {label.replace('no ', 'no residual ')} the best learning rate falls with the "
            "number of loops.",
            quantity=f"octaves by which the best rate falls{ends}, {scaling}",
            above=0.5,  # half a step of the grid of rates: the least that is a movement there
        )(partial(_by_seed, kind="move", scaling=scaling, sign=-1))
    of_figure(
        "sqrt_rate_moves",
        "With 1/√R the best learning rate moves with the number of loops.",
        quantity=f"octaves by which the best rate moves either way{ends}, sqrt",
        above=0.5,
        published="moves",
        line_set="after",
    )(lambda evidence: absolute(_by_seed(evidence, "move", "sqrt")))
    of_figure(
        "linear_rate_stays",
        "With 1/R the best learning rate stays where it is however many loops there are.",
        quantity=f"octaves by which the best rate moves either way{ends}, linear",
        below=1.0,  # a step of the grid of rates on texts, two of that on pairs
        published="a narrow band",
    )(lambda evidence: absolute(_by_seed(evidence, "move", "linear")))


_PAPER = Paper("arXiv 2606.18524", steps=20_000)
_claims(
    _PAPER._replace(prefix="scaling_fig5_", size="U = 12, d = 768"),
    "less error",
    "that",
    "",
    " from the fewest loops to the most",
)

_claims(
    _PAPER._replace(prefix="language_scaling_", size="12 to 48 layers, d = 768, FineWeb-Edu"),
    "fewer bits per byte",
    "those",
    "0.025 nats a token (340M parameters, R = 8), about 0.008 bits per byte",
    ", most loops against one",
)


def _one_rate_serves_all(evidence: Evidence, of: Errors) -> Estimate:
    """Seed by seed; the one rate is that of the least geometric mean over U and R."""
    cells: dict[tuple[int, int], dict[float, Floats]] = {}
    for each in groups(evidence, residual_scaling="factored"):
        by_rate = cells.setdefault((each.config.model.n_layer, each.b), {})
        by_rate[each.config.training.learning_rate] = of(each).mean(1)
    tried = sorted(set.intersection(*map(set, cells.values())))
    if len(cells) < 3 or len(tried) < 3:
        raise NotMeasured("too few layers, loops or rates whose runs all came through")
    errors = np.array([[of[rate] for rate in tried] for of in cells.values()])  # [cells, rates, s]
    shared = int(np.log(errors).mean((0, 2)).argmin())
    if shared in (0, len(tried) - 1):
        raise NotMeasured("the best rate for all is the outermost that was tried")
    return over_seeds((errors[:, shared] / errors.min(1)).max(0), log=True)


def _deepest_stops_first(evidence: Evidence) -> Estimate:
    """Seed by seed; a run that learned nothing is none of the evidence's."""
    highest: dict[int, dict[tuple[int, int], float]] = {}
    for config in (member.config for member in evidence.where(residual_scaling="factored")):
        cell, rate = (config.model.n_layer, trained_loops(config)), config.training.learning_rate
        of_seed = highest.setdefault(config.seed, {})
        of_seed[cell] = max(rate, of_seed.get(cell, 0.0))
    tried = max(member.config.training.learning_rate for member in evidence.members)
    deepest, ratios = max(cell for of_seed in highest.values() for cell in of_seed), list[float]()
    for of_seed in highest.values():
        if deepest not in of_seed or len(of_seed) < 2:
            raise NotMeasured("a model learned at no rate")
        if tried in of_seed.values():
            raise NotMeasured("a model learns at the highest rate that was tried, too")
        others = [rate for cell, rate in of_seed.items() if cell != deepest]
        ratios.append(of_seed[deepest] / float(np.median(others)))
    return over_seeds(ratios, log=True)


for _prefix, _size, _what, _error_of, _near in (
    ("scaling_fig5_", "U = 12 to 48, d = 768", "error", over_examples, 1.1),
    ("language_scaling_", "12 to 48 layers, d = 768", "bits per byte", bits, 1.01),
):
    _PAPER._replace(prefix=_prefix, size=_size).claim(
        "one_rate_serves_all",
        "With λ/(R √U) one base rate is near the best for every number of layers and of loops.",
        figure="Figure 5",
        quantity=f"{_what} at the one rate that is best for all over the least of any rate, the "
        "largest over U and R",
        published="near the best for all three depths",
        below=_near,
    )(partial(_one_rate_serves_all, of=_error_of))

_PAPER._replace(prefix="scaling_fig5_", size="U = 12 to 48, d = 768").claim(
    "deepest_stops_first",
    "With λ/(R √U) the model of the most layers and loops stops learning at a lower base rate than "
    "the others.",
    figure="Section 5.3",
    quantity="highest base rate at which a model learns, of the most layers and loops over the "
    "median of the others",
    published="a tighter margin",
    below=1.0,
    line_set="after",
)(_deepest_stops_first)
