"""Trained loops: the final error by learning rate, loops and residual scaling, with verdicts on a
sweep and on single trainings; and the residual stream of trained runs from loop to loop (arXiv
2606.18524, Figures 5 to 8).

reason = collapse(losses, final=0.9, plain=0.5)         # "" if it did not
result = trained([load_run("runs/A"), load_run("runs/B")])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Floats, Interval, numbers
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds, padded
from looplab.evaluation.remarks import unfinished
from looplab.evaluation.style import kind_of
from looplab.probing.dynamics.trajectory import Movements, follow, prompts_on
from looplab.training.assemble import build_curriculum, build_model, build_task, trained_loops
from looplab.training.objective import loss
from looplab.training.run_folder.metrics import Metrics, smoothed
from looplab.training.run_folder.run import Run, run_folder

from .claims import Measured
from .measuring import Missing
from .near_init import LABELS, by_distance, distance_panel, matrix_panel, with_errors
from .plateau import bayes_error
from .statistics import half_width

DECAY = 0.98  # of the smoothed loss: its noise is that of the mean of 99 losses
MARGIN = 0.5  # the most that a loss may end above its best: nats, or errors over that of zero
RATIO = 1.5  # the most that an error may be over that of the same model of one loop
_LAST = 200  # steps whose mean counts as the end
_SETTLED = 50  # losses that a smoothed one needs to be above their noise


def collapse(losses: ArrayLike, final: float | None = None, plain: float | None = None) -> str:
    """The reason why a run with these losses [steps] collapsed, empty if it did not.

    A loss is not finite; or the mean of the smoothed loss over the last 200 steps is more than 0.5
    above its minimum; or the `final` error is more than 1.5 times the `plain` one, that of the same
    model of one loop, if both are given. (arXiv 2605.18797 calls high plateaus, fluctuations and
    useless models collapse, without numbers: these are ours, for losses in nats or for squared
    errors over that of predicting zero.)
    """
    curve = np.asarray(losses, dtype=np.float64)
    if not np.isfinite(curve).all() or not (final is None or np.isfinite(final)):
        return "not finite"
    smooth = smoothed(curve, DECAY)[_SETTLED - 1 :]
    if len(smooth) and smooth[-_LAST:].mean() > smooth.min() + MARGIN:
        return f"ends {MARGIN:g} above its best"
    if final is not None and plain is not None and final > RATIO * plain:
        return f"error above {RATIO:g} x that of one loop"
    return ""


def plateau_exit(losses: ArrayLike, threshold: float) -> int | None:
    """The first step (counted from 1, at least 50) whose smoothed loss is below `threshold`; None
    if there is none."""
    steps = np.flatnonzero(smoothed(losses, DECAY)[_SETTLED - 1 :] < threshold)
    return int(steps[0]) + _SETTLED if len(steps) else None


class Optimum(NamedTuple):
    """The best learning rate: `place`, the index of the least mean error over seeds, and log2 of
    each seed's own, interpolated by a parabola; whether the mean's or a seed's is the lowest or the
    highest one tried, so that a better one may lie beyond."""

    place: int
    by_seed: Floats
    at_lowest: bool
    at_highest: bool

    @property
    def edge(self) -> bool:
        """Whether a better rate may lie beyond those tried."""
        return self.at_lowest or self.at_highest


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


def least_move(rates: Floats) -> float:
    """The fewest octaves that count as a movement: half the least step between rates."""
    return float(np.diff(np.log2(rates)).min()) / 2


def movement(rates: Floats, few: Optimum | None, many: Optimum | None) -> dict[str, Any]:
    """How many octaves the best rate moves from few loops to many: `mean` over seeds, `half` the
    width of its 95 % interval, and the `verdict`.

    It is up or down if the interval excludes 0 and the mean is at least `least_move`, else no
    movement. A best rate at an end of those tried may lie beyond it: then the verdict is up or down
    only if that would add to the movement (`at_least`). Otherwise, for one seed, and if an optimum
    is missing, it is unknown, with the `reason`.
    """
    if few is None or many is None:
        return _unknown("no rate came through with every seed")
    octaves = many.by_seed - few.by_seed
    if len(octaves) < 2:
        return _unknown("one seed has no spread")
    mean, half = mean_interval(octaves)
    is_significant = abs(mean) > half and abs(mean) >= least_move(rates)
    verdict = ("up" if mean > 0 else "down") if is_significant else "no movement"
    # Whether it may be less than measured, and whether it may be more.
    may_be_less, may_be_more = few.at_highest or many.at_lowest, few.at_lowest or many.at_highest
    if {"up": may_be_less, "down": may_be_more, "no movement": may_be_less or may_be_more}[verdict]:
        unknown = _unknown("a best rate is the outermost that was tried")
        return {**unknown, "mean": mean, "half": half, "by_seed": octaves.tolist()}
    return {
        "verdict": verdict,
        "mean": mean,
        "half": half,
        "by_seed": octaves.tolist(),
        "at_least": may_be_less or may_be_more,
    }


def gain(before: Floats, after: Floats) -> dict[str, Any]:
    """How far errors `after` are below those `before`, both [rates, seeds], each at its best rate:
    `mean` over seeds, `half` the width of its 95 % interval, and the `verdict`: gain or loss if the
    interval excludes 0, else no gain; unknown, with the `reason`, for one seed and if one of them
    has no best rate."""
    rates = np.arange(1.0, len(before) + 1)  # only their order matters here
    optima = [optimum(rates, errors) for errors in (before, after)]
    if optima[0] is None or optima[1] is None:
        return _unknown("no rate came through with every seed")
    differences = before[optima[0].place] - after[optima[1].place]
    if len(differences) < 2:
        return _unknown("one seed has no spread")
    mean, half = mean_interval(differences)
    verdict = ("gain" if mean > 0 else "loss") if abs(mean) > half else "no gain"
    return {"verdict": verdict, "mean": mean, "half": half, "by_seed": differences.tolist()}


def mean_interval(values: Floats) -> tuple[float, float]:
    """The mean of values [seeds], two or more, and half the width of its 95 % interval by Student's
    t."""
    count = len(values)
    error = values.std(ddof=1) / math.sqrt(count)
    return float(values.mean()), half_width(float(error), count - 1, level=0.95)


def _unknown(reason: str) -> dict[str, Any]:
    return {"verdict": "unknown", "reason": reason}


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


ERROR = "error / error of predicting zero"


def grid(
    runs: Sequence[Measured], key: Callable[[Config], tuple[Any, ...]]
) -> dict[tuple[Any, ...], Measured]:
    """The runs by a key of their configurations, which ends with the seed, in the order of keys'
    first appearance. Missing while one of them is still to be trained; those that diverged
    count."""
    for run in runs:
        reason = str(run_folder(run.config).status().get("reason", ""))
        if not run.arrays and "not finite" not in reason:
            raise Missing(f"{run.label}, seed {run.config.seed}: not trained yet")
    return {key(run.config): run for run in runs}


def final_error(run: Measured) -> float:
    """At b, over that of predicting zero: the mean over prompts and numbers of examples; nan for a
    run that diverged."""
    errors = run.arrays.get("model_at_b")
    return math.nan if errors is None else float(np.mean(errors, dtype=np.float64))


def initial_error(config: Config) -> float:
    """The same of a model before training."""
    task, evaluation = build_task(config), config.evaluation
    prompts = evaluation_prompts(task, evaluation.prompts, config.task.points, evaluation.seed)
    with torch.no_grad():
        predictions = build_model(config, task)(prompts, config.loops.b)
    return loss(task.loss, predictions, prompts.ys).item() / task.divisor


def logged_curve(run: Measured, name: str) -> Floats:
    """A metric of a training at each of its steps, [steps]; nan after it diverged. Missing where it
    did not log all of them."""
    curve = np.full(run.config.training.steps, math.nan)
    records = Metrics(run_folder(run.config).metrics).read()[0]
    if run.arrays and (len(records) < len(curve) or name not in records[0]):
        raise Missing(f"{run.path} logged less than training.log_every=1 and log_norms=true do")
    for record in records:
        curve[record["step"] - 1] = record[name]
    return curve


def sweep(runs: Sequence[Measured], figure: str = "sweep") -> dict[str, Any]:
    """Compare two residual scalings, the first with the second, over learning rates (at least
    three), numbers of loops (at least two) and seeds, in all combinations.

    `scalings`, by scaling and R: the `errors` [rates][seeds], None where training collapsed, and
    the reasons, `collapsed`. `best`, of each: the best rate, its place among the rates and its mean
    error, and whether a better one may lie beyond those tried (`edge`); None where no rate came
    through with every seed. `move`: how far the best rate moves from the fewest loops to the most,
    by scaling. `gain`: that of the second scaling over the first, by R. ConfigError for other runs.
    """
    cells = grid(
        runs,
        lambda c: (c.model.residual_scaling, c.loops.b, c.training.learning_rate, c.seed),
    )
    scalings = list(dict.fromkeys(scaling for scaling, *_ in cells))
    loops, rates, seeds = (sorted(set(values)) for values in list(zip(*cells, strict=True))[1:])
    complete = len(cells) == len(scalings) * len(loops) * len(rates) * len(seeds)
    if not complete or len(scalings) != 2 or len(loops) < 2 or len(rates) < 3:
        text = "two residual scalings, two numbers of loops, three rates, and seeds"
        raise ConfigError("runs", f"must be all combinations of at least {text}")
    first = runs[0].config
    places = product(scalings, loops, seeds)
    initial = [initial_error(cells[name, R, rates[0], seed].config) for name, R, seed in places]
    result: dict[str, Any] = {
        "figure": figure,
        "what": "no norm in the loop, no injection"
        if first.model.norm == "at_readout"
        else "normed in the loop, prompt added",
        "loops": loops,
        "rates": rates,
        "seeds": seeds,
        "steps": first.training.steps,
        "zero": 1.0,
        "bayes": bayes_error(first.task.dims, first.task.points),
        "initial": float(np.mean(initial)),
        "scalings": {scaling: {} for scaling in scalings},
        "best": {scaling: {} for scaling in scalings},
        "move": {},
        "gain": {},
    }
    errors, optima = dict[tuple[str, int], Floats](), {}
    for scaling, R in product(scalings, loops):
        kept: list[list[float | None]] = [[] for _ in rates]
        reasons: list[list[str]] = [[] for _ in rates]
        for (place, rate), seed in product(enumerate(rates), seeds):
            run = cells[scaling, R, rate, seed]
            error, losses = final_error(run), logged_curve(run, "loss")
            reason = collapse(losses / build_task(run.config).divisor, error)
            kept[place].append(None if reason else error)
            reasons[place].append(reason)
        errors[scaling, R] = np.array(kept, dtype=np.float64)
        optima[scaling, R] = peak = optimum(np.array(rates), errors[scaling, R])
        result["scalings"][scaling][str(R)] = {"errors": kept, "collapsed": reasons}
        result["best"][scaling][str(R)] = peak and {
            "place": peak.place,
            "rate": rates[peak.place],
            "error": float(errors[scaling, R][peak.place].mean()),
            "edge": peak.edge,
        }
    for scaling in scalings:
        ends = optima[scaling, loops[0]], optima[scaling, loops[-1]]
        result["move"][scaling] = movement(np.array(rates), *ends)
    for R in loops:
        result["gain"][str(R)] = gain(*(errors[scaling, R] for scaling in scalings))
    return {**result, "panels": sweep_panels(result)}


def sweep_panels(result: Mapping[str, Any]) -> list[Panel]:
    """Error by rate, a panel for each scaling, a curve for each R with a point at its best rate;
    and the gain of the second scaling over the first by R, with its 95 % interval."""
    levels = {"predicting zero, expected": result["zero"], "least possible": result["bayes"]}
    figure, found = result["figure"], []
    for scaling, by_loops in result["scalings"].items():
        curves = []
        for R, cell in by_loops.items():
            interval = mean_of_seeds(list(zip(*cell["errors"], strict=True)))
            curves.append(Curve.of(f"R = {R}", "loops", interval, number=int(R)))
        for R, best in result["best"][scaling].items():
            if best is not None:
                curves.append(
                    Curve(
                        label=f"R = {R}", kind="loops", name=f"r-{R}-best", mean=[best["error"]],
                        x=[best["rate"]], number=int(R), points=True,
                    )
                )  # fmt: skip
        errors = [error for cell in by_loops.values() for row in cell["errors"] for error in row]
        title = (
            f"{LABELS[scaling]}; {result['what']}; {errors.count(None)} of {len(errors)} runs "
            "collapsed"
        )
        found.append(
            Panel(
                f"{figure}-{scaling}", title, "learning rate", ERROR, result["rates"], curves,
                log="xy", levels=levels, picture=figure,
            )
        )  # fmt: skip
    known = {R: of for R, of in result["gain"].items() if "mean" in of}
    if known:
        before, after = result["scalings"]
        moves = ", ".join(f"{name} {of['verdict']}" for name, of in result["move"].items())
        mean, half = (np.array([of[part] for of in known.values()]) for part in ("mean", "half"))
        curve = Curve.of(f"{after} over {before}", after, Interval(mean, mean - half, mean + half))
        found.append(
            Panel(
                f"{figure}-gain", f"{result['what']}, 95 %; the best rate by loops: {moves}",
                "loops R", "gain in error at the best rates", [*map(int, known)], [curve], log="x",
                levels={"none": 0.0},
            )
        )  # fmt: skip
    return found


PROMPTS = 64
_Z = 1.645  # standard errors in half a 90 % interval


def trained(runs: Sequence[Run], labels: Sequence[str] = (), seed: int = 0) -> dict[str, Any]:
    """Follow trained runs up to their number of loops, on 64 prompts of a seed. `labels` name their
    curves; runs of one label are seeds of one model.

    `runs`, of each: the kind of its curves as `style`; `norm`, that of a token's state before the
    final norm from index 0, the read-in, to loop b, over prompts; `cosine` [b, b] between
    increments, None if one of the two is zero at all tokens; and `apart`, its mean over pairs of
    different ones, None if there are none. `unfinished` says what its training lacks, `collapsed`
    the reason why it collapsed: empty if it did not, None where a curriculum of the prompts moved
    its loss, or nothing was logged. `panels`: the norms by loop, the cosines of each model's
    increments, and these by the distance between two loops. Missing without a run; RunError if
    states are not finite.
    """
    if not runs:
        raise Missing("none of its runs is finished")
    found = [_followed(run, seed) for run in runs]
    names = labels or [f"{at}: {run['what']}" for at, run in enumerate(found, start=1)]
    panels = _trained_panels(found, names)
    return {"runs": found, "prompts": PROMPTS, "seed": seed, "panels": panels}


def _followed(run: Run, seed: int) -> dict[str, Any]:
    config, model = run.config, deepcopy(run.model).requires_grad_(False).double()
    b = trained_loops(config)
    prompts = evaluation_prompts(run.task, PROMPTS, config.task.points, seed)
    movements = Movements(window=b)
    last = movements.add(follow(model, prompts_on(model, prompts), b))
    if not bool(last.isfinite().all()):
        raise RunError(f"{run.path}: its states are not finite by loop {b}")
    arrays = movements.arrays()
    cosine = _mean(arrays["cosines"])
    off_diagonal = [cosine[i][j] for i in range(b) for j in range(b) if i != j]
    values = [value for value in off_diagonal if value is not None]
    norm = with_errors(arrays["raw"])
    scaling = config.model.residual_scaling
    return {
        "run": str(run.path),
        "style": kind_of(config.model),
        "what": f"{config.model.connectivity or config.model.family}, b = {b}"
        + (f", {scaling}" if scaling != "none" else ""),
        "step": run.step,
        "unfinished": unfinished(config, run.task, run.step),
        "scaling": scaling,
        "loops": b,
        "norm": {"mean": norm["mean"], "standard_error": norm["standard_error"]},
        "cosine": cosine,
        "apart": float(np.mean(values)) if values else None,
        "collapsed": _collapsed(run),
    }


def _collapsed(run: Run) -> str | None:
    curriculum = build_curriculum(run.config, run.task)
    first, last = curriculum(0), curriculum(max(run.step - 1, 0))
    losses = [record["loss"] for record in logged(run)]
    if not losses or (first.dims, first.points) != (last.dims, last.points):
        return None
    return collapse(losses)


def _mean(cosines: Floats) -> list[list[float | None]]:
    """The mean of cosines [P, b, b] over the prompts that have one, None if there is none."""
    valid = np.isfinite(cosines)
    counts = valid.sum(0)
    means = np.where(valid, cosines, 0).sum(0) / np.maximum(counts, 1)
    return [
        [value if count else None for value, count in zip(values, row_counts, strict=True)]
        for values, row_counts in zip(means.tolist(), counts.tolist(), strict=True)
    ]


def _trained_panels(found: Sequence[dict[str, Any]], labels: Sequence[str]) -> list[Panel]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for label, run in zip(labels, found, strict=True):
        groups.setdefault(label, []).append(run)
    longest = 1 + max(run["loops"] for run in found)
    norms, matrices, apart = list[Curve](), list[Panel](), list[Curve]()
    loops = [runs[0]["loops"] for runs in groups.values()]
    for label, runs in groups.items():
        kind, b = runs[0]["style"], runs[0]["loops"]
        number = b if len(set(loops)) == len(loops) > 1 else None  # else it tells no two apart
        interval = mean_of_seeds([padded(run["norm"]["mean"], longest) for run in runs])
        if len(runs) == 1:  # over prompts
            half = _Z * numbers(padded(runs[0]["norm"]["standard_error"], longest))
            interval = Interval(interval.mean, interval.mean - half, interval.mean + half)
        norms.append(Curve.of(label, kind, interval, number=number))
        if b > 1:
            cosines = np.array([run["cosine"] for run in runs], dtype=np.float64)
            interval = mean_of_seeds(by_distance(cosines, longest - 1))
            apart.append(Curve.of(label, kind, interval, number=number))
            name, title = f"trained-cosines-{len(matrices) + 1}", f"{label}, step {runs[0]['step']}"
            matrices.append(matrix_panel(name, title, _mean(cosines)))
    axes = ("loop (0: the read-in)", "norm of a token's state before the norm")
    title = f"trained runs, {PROMPTS} prompts"
    return [
        Panel("trained-norms", title, *axes, range(longest), norms, log="y"),
        *matrices,
        *([distance_panel("trained-cosines", title, apart)] if apart else []),
    ]
