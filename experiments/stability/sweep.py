"""Final error of linear regression in context by learning rate, loops and residual scaling (like
arXiv 2606.18524, Figure 5), with verdicts on it, as a table and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from looplab.conf.schema import ModelConfig, TrainingConfig
from looplab.evaluation.figures import (
    Pictures,
    band,
    name_curves,
    note_level,
    outer_labels,
    ticks_at,
)
from looplab.evaluation.style import style_of_number
from looplab.evaluation.tables import Part, Table

from ..plateau import bayes_error
from ..population import Population, measured
from .regression import DIMS, POINTS, regression_runs
from .settings import StabilitySettings
from .tables import LABELS, Floats, mean_and_range
from .verdict import Verdict, collapse, gain, least_move, movement, optimum

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


class Cell(TypedDict):
    """The `errors` [rates][seeds] of one scaling and number of loops, None if training collapsed,
    and the reasons."""

    errors: list[list[float | None]]
    collapsed: list[list[str]]


class Best(TypedDict):
    """The best rate, its place among the rates and its mean error; whether a better one may lie
    beyond those tried."""

    place: int
    rate: float
    error: float
    edge: bool


class Sweep(TypedDict):
    """The cells by scaling and R, their `best` rates (None: no rate came through with every seed);
    how far these `move` from the fewest loops to the most, by scaling, and the `gain` of the second
    scaling over the first, by R."""

    figure: str
    what: str
    loops: list[int]
    rates: list[float]
    seeds: list[int]
    steps: int
    zero: float
    bayes: float
    initial: float
    scalings: dict[str, dict[str, Cell]]
    best: dict[str, dict[str, Best | None]]
    move: dict[str, Verdict]
    gain: dict[str, Verdict]


def measure(settings: StabilitySettings) -> Sweep:
    """Train what is not trained yet, and compare."""
    loop, loops = LOOPS[settings.figure], settings.all_loops
    runs = {
        (s, R): scaling_runs(settings, loop, s, R) for s in (loop.before, loop.after) for R in loops
    }
    results = measured(list(runs.values()), settings.jobs, Path(settings.folder) / "logs")
    result: Sweep = {
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


def _without_collapsed(population: Population, errors: list[list[float | None]]) -> Cell:
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


def report(result: Sweep) -> list[Part]:
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


def verdict(result: Sweep) -> list[str]:
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


def draw(result: Sweep, pictures: Pictures, name: str) -> None:
    """Error by rate, a panel for each scaling, a curve for each R with the least and the most of
    its seeds, a star at the best rate."""
    columns, rates = {}, result["rates"]
    figure, panels = pictures.panels(len(result["scalings"]), 2, 5.0, 4.0, share_y=True)
    for axes, (scaling, by_loops) in zip(panels, result["scalings"].items(), strict=True):
        for R, cell in by_loops.items():
            collapse_counts = [row.count(None) for row in cell["errors"]]
            curve = mean_and_range(cell["errors"]) | {"collapsed": collapse_counts}
            columns[f"{scaling}_R{R}"] = curve
            style = style_of_number(int(R))
            band(axes, rates, curve, f"R = {R}", style)
            if (best := result["best"][scaling][R]) is not None:
                star = {"color": style["color"], "markersize": 9, "zorder": 3}
                axes.plot(best["rate"], best["error"], "*", **star)
        ticks_at(axes, rates)
        axes.set_yscale("log")
        note_level(axes, result["zero"], "predicting zero, expected")
        note_level(axes, result["bayes"], "least possible, expected")
        errors = [error for cell in by_loops.values() for row in cell["errors"] for error in row]
        count = f"{errors.count(None)} of {len(errors)}"
        axes.set_title(f"{LABELS[scaling]}; {count} runs collapsed")
    outer_labels(panels, x="learning rate", y="error / error of predicting zero")
    text = f"linear regression in context, {result['what']}, {result['steps']:,} steps"
    pictures.title(figure, text)
    name_curves(figure)
    pictures.save(figure, name, "rate", rates, columns)


def _cell(row: Sequence[float | None]) -> str:
    errors = [error for error in row if error is not None]
    mean = f"{np.mean(errors):.3f}" if errors else "-"
    return mean if len(errors) == len(row) else f"{mean} ({len(row) - len(errors)})"


def _mark(best: Best | None, place: int) -> str:
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


def _edge_note(result: Sweep, R: str) -> str:
    """The scalings whose best rate is the outermost one tried."""
    bests = {scaling: by_loops[R] for scaling, by_loops in result["best"].items()}
    scalings = [scaling for scaling, best in bests.items() if best is not None and best["edge"]]
    return f"; the outermost rate tried is best for {' and '.join(scalings)}" if scalings else ""
