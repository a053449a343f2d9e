"""Final error of linear regression in context by learning rate, loops and residual scaling (like
arXiv 2606.18524, Figure 5), with verdicts on it, as a table and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.evaluation.tables import Part, Table

from ..plateau import bayes_error
from ..population import Population, measured
from .settings import StabilitySettings
from .tables import LABELS
from .verdict import Verdict, collapse, gain, least_move, movement, optimum

# Linear regression in context: small enough that a grid of rates, loops and seeds takes minutes.
DIMS, POINTS, WIDTH, HEADS, BATCH = 3, 7, 32, 4, 32
ERROR = "error / error of predicting zero"
PLATEAU = 0.9  # of the initial error; above it a model has hardly learned
_WARMUP, _DECAY = 1 / 40, 1 / 20  # of the steps: the paper's 500 and 1,000 of 20,000


class Loop(NamedTuple):
    """A kind of loop, and the two scalings compared: `after` with `before`."""

    what: str
    model: ModelConfig
    before: str
    after: str


LOOPS = {
    "sweep": Loop(
        "no norm in the loop, no injection",
        ModelConfig(injection="none", norm="at_readout"),
        "sqrt",
        "linear",
    ),
    "contrast": Loop("normed in the loop, prompt added", ModelConfig(), "none", "linear"),
}


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """Train what is not trained yet, and compare.

    `scalings`, by scaling and R: the `errors` [rates][seeds], None where training collapsed, and
    the reasons, `collapsed`. `best`, of each: the best rate, its place among the rates and its mean
    error, and whether a better one may lie beyond those tried (`edge`); None where no rate came
    through with every seed. `move`: how far the best rate moves from the fewest loops to the most,
    by scaling. `gain`: that of the second scaling over the first, by R.
    """
    loop, loops = LOOPS[settings.figure], settings.all_loops
    runs = {
        (s, R): scaling_runs(settings, loop, s, R) for s in (loop.before, loop.after) for R in loops
    }
    results = measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    result: dict[str, Any] = {
        "figure": settings.figure,
        "what": loop.what,
        "loops": list(loops),
        "rates": list(settings.all_rates),
        "seeds": list(settings.all_seeds),
        "steps": settings.steps,
        "zero": 1.0,
        "bayes": bayes_error(DIMS, POINTS),
        "initial": float(np.mean([cell["initial"] for cell in results])),
        "scalings": {loop.before: {}, loop.after: {}},
        "best": {loop.before: {}, loop.after: {}},
        "move": {},
        "gain": {},
    }
    rates, few, many = np.array(settings.all_rates), loops[0], loops[-1]
    errors, optima = dict[tuple[str, int], Floats](), {}
    for ((scaling, R), population), measured_errors in zip(runs.items(), results, strict=True):
        cell = _without_collapsed(population, measured_errors["errors"])
        errors[scaling, R] = np.array(cell["errors"], dtype=np.float64)
        optima[scaling, R] = peak = optimum(rates, errors[scaling, R])
        result["scalings"][scaling][str(R)] = cell
        result["best"][scaling][str(R)] = (
            None
            if peak is None
            else {
                "place": peak.place,
                "rate": float(rates[peak.place]),
                "error": float(errors[scaling, R][peak.place].mean()),
                "edge": peak.edge,
            }
        )
    for scaling in (loop.before, loop.after):
        result["move"][scaling] = movement(rates, optima[scaling, few], optima[scaling, many])
    for R in loops:
        result["gain"][str(R)] = gain(errors[loop.before, R], errors[loop.after, R])
    return result


def scaling_runs(settings: StabilitySettings, loop: Loop, scaling: Any, loops: int) -> Population:
    """Every rate and seed of one scaling of a loop with R loops from the first step: one GPT-2
    block, Adam, warm-up, constant rate, decay to 0."""
    model = replace(loop.model, residual_scaling=scaling)
    training = TrainingConfig(warmup=int(_WARMUP * settings.steps), decay=_DECAY)
    return regression_runs(settings, f"linear, {scaling}, R = {loops}", loops, model, training)


def regression_runs(
    settings: StabilitySettings, name: str, loops: int, model: ModelConfig, training: TrainingConfig
) -> Population:
    """All rates and seeds of a model with `loops` loops from the first step on. `model` and
    `training` are completed by the settings that all figures share: the size of prompts, the width,
    the batch, the steps and gradients through all loops."""
    config = Config(
        task=TaskConfig("linear", dims=DIMS, points=POINTS),
        model=replace(model, n_embd=WIDTH, n_head=HEADS, n_positions=POINTS),
        loops=LoopsConfig(b=loops, T=1, grad_loops="all"),
        curriculum=CurriculumConfig(loops=GrowthConfig(start=loops)),
        training=replace(
            training, steps=settings.steps, batch_size=BATCH, log_every=1, log_norms=True
        ),
        device="cpu",  # models this small are fastest with one core each
        folder=settings.folder,
    )
    return Population(name, config, settings.all_rates, settings.all_seeds)


def _without_collapsed(
    population: Population, errors: list[list[float | None]]
) -> dict[str, list[list[Any]]]:
    """The errors [rates][seeds] of the runs that did not collapse; the reasons of the others."""
    losses = population.curve("loss") / DIMS
    reasons = [
        [
            collapse(losses[:, i, j], np.nan if error is None else error)
            for j, error in enumerate(row)
        ]
        for i, row in enumerate(errors)
    ]
    kept = [
        [error if not reason else None for error, reason in zip(*rows, strict=True)]
        for rows in zip(errors, reasons, strict=True)
    ]
    return {"errors": kept, "collapsed": reasons}


def report(result: dict[str, Any]) -> list[Part]:
    """Mean errors by rate, the best marked; then the verdicts."""
    lines: list[Part] = [
        f"linear regression in context, {result['what']}: error after {result['steps']:,} steps, "
        f"mean of {len(result['seeds'])} seeds",
        f"(expected of predicting zero {result['zero']:g}, of the best predictor "
        f"{result['bayes']:.3f}; runs that collapsed are left out,",
        "their number in brackets; * the best rate, ^ the same where it or a seed's own is an "
        "outermost one)",
        "",
    ]
    head = ["", *(f"{rate:.3g}" for rate in result["rates"])]
    rows = []
    for scaling, by_loops in result["scalings"].items():
        for R, cell in by_loops.items():
            best = result["best"][scaling][R]
            cells = [_cell(row) + _mark(best, i) for i, row in enumerate(cell["errors"])]
            rows.append([f"{scaling}, R = {R}", *cells])
    return [*lines, Table(head, rows), "", *verdict(result)]


def verdict(result: dict[str, Any]) -> list[str]:
    """The verdicts of the sweep, one sentence each."""
    few, many = result["loops"][0], result["loops"][-1]
    lines = [
        f"{scaling}: from R = {few} to {many} the best rate {_movement(entry)}"
        for scaling, entry in result["move"].items()
    ]
    before, after = result["scalings"]
    lines += [
        f"R = {R}: {after} over {before}, each at its best rate: {_gain(entry)}"
        + _edge_note(result, R)
        for R, entry in result["gain"].items()
    ]
    high = PLATEAU * result["initial"]
    on_plateau = [
        f"{scaling} R = {R}"
        for scaling, by_loops in result["best"].items()
        for R, best in by_loops.items()
        if best is not None and best["error"] > high
    ]
    if on_plateau:
        lines.append(
            f"still above {high:.2f} at the best rate, so that it means little: "
            + ", ".join(on_plateau)
        )
    cells = [cell for by_loops in result["scalings"].values() for cell in by_loops.values()]
    reasons = [reason for cell in cells for row in cell["collapsed"] for reason in row if reason]
    least = least_move(np.array(result["rates"]))
    return [
        *lines,
        f"runs that collapsed: {len(reasons)}",
        "± is the 95 % interval over seeds; a gain or a loss is one whose interval excludes 0, a "
        "movement one",
        f"that also has a mean of at least {least:.2f} octaves, half the least step between rates",
    ]


def panels(result: dict[str, Any]) -> list[Panel]:
    """Error by rate, a panel for each scaling, a curve for each R with a point at its best rate."""
    levels = {"predicting zero, expected": result["zero"], "least possible": result["bayes"]}
    found = []
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
        name, figure = f"{result['figure']}-{scaling}", result["figure"]
        axes = ("learning rate", ERROR)
        found.append(
            Panel(
                name, title, *axes, result["rates"], curves, log="xy", levels=levels, picture=figure
            )
        )
    return found


def _cell(row: Sequence[float | None]) -> str:
    errors = [error for error in row if error is not None]
    mean = f"{np.mean(errors):.3f}" if errors else "-"
    return mean if len(errors) == len(row) else f"{mean} ({len(row) - len(errors)})"


def _mark(best: dict[str, Any] | None, place: int) -> str:
    if best is None or place != best["place"]:
        return " "
    return "^" if best["edge"] else "*"


def _movement(entry: Verdict) -> str:
    if entry["verdict"] == "unknown":
        estimate = f" (measured: {_octaves(entry)})" if "mean" in entry else ""
        return f"is not known to move or to stay: {entry['reason']}{estimate}"
    phrases = {"up": "moves up", "down": "moves down", "no movement": "shows no movement"}
    note = ", or more: a best rate is the outermost that was tried" if entry["at_least"] else ""
    return f"{phrases[entry['verdict']]}: {_octaves(entry)}{note}"


def _octaves(entry: Verdict) -> str:
    return f"{entry['mean']:+.2f} ± {entry['half']:.2f} octaves"


def _gain(entry: Verdict) -> str:
    if entry["verdict"] == "unknown":
        return f"unknown: {entry['reason']}"
    return f"{entry['verdict']} ({entry['mean']:+.3f} ± {entry['half']:.3f})"


def _edge_note(result: dict[str, Any], R: str) -> str:
    """The scalings whose best rate is the outermost one tried."""
    bests = {scaling: by_loops[R] for scaling, by_loops in result["best"].items()}
    scalings = [scaling for scaling, best in bests.items() if best is not None and best["edge"]]
    return f"; the outermost rate tried is best for {' and '.join(scalings)}" if scalings else ""
