"""Where the best learning rate lies by residual scaling and loops, on texts (arXiv 2606.18524,
Figure 5).

result = measure(runs, EvaluationConfig())   # runs of several rates, scalings, numbers of loops
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, over_seeds
from looplab.experiments.stability.tables import LABELS
from looplab.experiments.stability.verdict import Verdict, collapse, gain, movement, optimum
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .common import bits_per_byte

_SCALINGS = ("none", "sqrt", "linear")


class RatesResult(TypedDict):
    """Bits per byte [rates][seeds] by scaling and R, None where training collapsed; the best rate
    of each (None: no rate came through with every seed); by scaling how many octaves the best rate
    moves from the fewest loops to the most; and how many bits per byte linear gains over sqrt, and
    over none, at the most loops. One loop is the same for all scalings."""

    rates: list[float]
    loops: list[int]
    steps: int
    bits: dict[str, dict[str, list[list[float | None]]]]
    best: dict[str, dict[str, float | None]]
    move: dict[str, Verdict]
    gain: dict[str, Verdict]
    panels: list[Panel]


class _Cell(NamedTuple):
    scaling: str
    loops: int
    rate: float
    seed: int


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> RatesResult:
    """Read each run's bits per byte after b loops. ConfigError for runs of pairs of numbers."""
    bits = {}
    for run in runs:
        cell, collapsed = _cell(run), collapse([each["loss"] for each in logged(run)])
        bits[cell] = np.nan if collapsed else bits_per_byte(run)
    rates = sorted({cell.rate for cell in bits})
    loops = sorted({cell.loops for cell in bits})
    seeds = sorted({cell.seed for cell in bits})
    scalings = [each for each in _SCALINGS if any(cell.scaling == each for cell in bits)]
    errors = {
        (scaling, R): np.array(
            [[_value(bits, scaling, R, rate, seed) for seed in seeds] for rate in rates]
        )
        for scaling in scalings
        for R in loops
    }
    few, many = loops[0], loops[-1]
    grid = np.array(rates)
    optima = {key: optimum(grid, values) for key, values in errors.items()}
    best = {key: None if peak is None else rates[peak.place] for key, peak in optima.items()}
    return {
        "rates": rates,
        "loops": loops,
        "steps": min(run.step for run in runs),
        "bits": {s: {str(R): _plain(errors[s, R]) for R in loops} for s in scalings},
        "best": {s: {str(R): best[s, R] for R in loops} for s in scalings},
        "move": {s: movement(grid, optima[s, few], optima[s, many]) for s in scalings},
        "gain": {
            before: gain(errors[before, many], errors["linear", many])
            for before in scalings
            if before != "linear" and "linear" in scalings
        },
        "panels": [_panel(s, rates, {R: errors[s, R] for R in loops}) for s in scalings],
    }


def _cell(run: Run) -> _Cell:
    config = run.config
    if not run.task.is_text:
        raise ConfigError("task", f"must be a text: {run.path} is not")
    scaling, loops = config.model.residual_scaling, trained_loops(config)
    return _Cell(scaling, loops, config.training.learning_rate, config.seed)


def _value(bits: Mapping[_Cell, float], scaling: str, loops: int, rate: float, seed: int) -> float:
    """Of one loop, that of any scaling."""
    wanted = [_Cell(scaling, loops, rate, seed)]
    wanted += [_Cell(each, 1, rate, seed) for each in _SCALINGS if loops == 1]
    return next((bits[cell] for cell in wanted if cell in bits), float("nan"))


def _plain(values: Floats) -> list[list[float | None]]:
    return [[float(each) if np.isfinite(each) else None for each in row] for row in values]


def _panel(scaling: str, rates: Sequence[float], errors: Mapping[int, Floats]) -> Panel:
    """Bits per byte by rate, a curve for each number of loops."""
    lost = sum(int((~np.isfinite(values)).sum()) for values in errors.values())
    total = sum(values.size for values in errors.values())
    curves = [
        Curve.of(f"R = {R}", "loops", over_seeds(values.T), number=R)
        for R, values in errors.items()
    ]
    title = f"{LABELS[scaling]}; {lost} of {total} runs collapsed"
    axes = ("learning rate", "bits per byte")
    return Panel(f"rates-{scaling}", title, *axes, rates, curves, log="x")
