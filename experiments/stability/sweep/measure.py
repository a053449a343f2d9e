"""Final error of linear regression in context by learning rate, loops and residual scaling (like
arXiv 2606.18524, Figure 5), and verdicts on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reloop.conf.schema import ModelConfig, TrainingConfig

from ...grid import Population, measured
from ...plateau import bayes_error
from ..collapse import collapse
from ..regression import DIMS, POINTS, regression_runs
from ..settings import StabilitySettings
from .report import draw, report
from .verdict import Floats, gain, movement, optimum

__all__ = ["draw", "measure", "report"]

_WARMUP, _DECAY = 1 / 40, 1 / 20  # of the steps: the paper's 500 and 1,000 of 20,000


class Loop(NamedTuple):
    """A kind of loop, and the two scalings compared: `after` with `before`."""

    what: str
    injection: Any
    norm: Any
    before: Any
    after: Any


LOOPS = {
    "sweep": Loop("no norm in the loop, no injection", "none", "at_readout", "sqrt", "linear"),
    "contrast": Loop("normed in the loop, prompt added", "add", "in_loop", "none", "linear"),
}


def measure(settings: StabilitySettings) -> dict[str, Any]:
    """For each scaling and number of loops `errors` [rates][seeds], None if training collapsed, and
    in `collapsed` the reasons; `best` rates; how far they `move` from the fewest loops to the most
    by scaling, and the `gain` by loops of the second scaling over the first. Trains what is not
    trained yet."""
    loop, loops = LOOPS[settings.figure], settings.all_loops
    runs = {(s, R): sweep_runs(settings, s, R) for s in (loop.before, loop.after) for R in loops}
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
    }
    for ((scaling, R), population), cell in zip(runs.items(), results, strict=True):
        reasons = _collapses(population, cell["errors"])
        errors = [
            [error if not reason else None for error, reason in zip(*row, strict=True)]
            for row in zip(cell["errors"], reasons, strict=True)
        ]
        result["scalings"][scaling][str(R)] = {"errors": errors, "collapsed": reasons}
    return result | _verdicts(result, loop)


def sweep_runs(settings: StabilitySettings, scaling: Any, loops: int) -> Population:
    """Every rate and seed of one scaling with R loops from the first step: one GPT-2 block, Adam,
    warm-up, constant rate, decay to 0."""
    loop = LOOPS[settings.figure]
    model = ModelConfig(injection=loop.injection, norm=loop.norm, residual_scaling=scaling)
    training = TrainingConfig(warmup=int(_WARMUP * settings.steps), decay=_DECAY)
    name = f"{settings.figure}, {scaling}, R = {loops}"
    return regression_runs(settings, name, loops, model, training)


def _collapses(population: Population, errors: list[list[float | None]]) -> list[list[str]]:
    """The reason why each of the runs [rates][seeds] collapsed, empty if it did not."""
    losses = population.curve("loss") / DIMS
    return [
        [
            collapse(losses[:, i, j], np.nan if error is None else error)
            for j, error in enumerate(row)
        ]
        for i, row in enumerate(errors)
    ]


def _verdicts(result: dict[str, Any], loop: Loop) -> dict[str, Any]:
    rates = np.array(result["rates"])
    tables: dict[str, dict[str, Floats]] = {
        scaling: {R: np.array(cell["errors"], dtype=np.float64) for R, cell in by_loops.items()}
        for scaling, by_loops in result["scalings"].items()
    }
    best = {s: {R: optimum(rates, errors) for R, errors in t.items()} for s, t in tables.items()}
    few, many = str(result["loops"][0]), str(result["loops"][-1])
    return {
        "best": {
            scaling: {
                R: None
                if peak is None
                else {
                    "place": peak.place,
                    "rate": float(rates[peak.place]),
                    "error": float(tables[scaling][R][peak.place].mean()),
                    "edge": peak.edge,
                }
                for R, peak in by_loops.items()
            }
            for scaling, by_loops in best.items()
        },
        "move": {s: movement(rates, b[few], b[many]) for s, b in best.items()},
        "gain": {
            R: gain(tables[loop.before][R], tables[loop.after][R]) for R in tables[loop.after]
        },
    }
