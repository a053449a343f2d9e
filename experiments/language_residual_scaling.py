"""Where the best learning rate lies by residual scaling and loops, on texts (arXiv 2606.18524,
Figure 5).

result = measure(runs, EvaluationConfig())   # runs of several rates, scalings, numbers of loops
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import logged
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, Paper
from .measuring import bits_per_byte
from .near_init import LABELS
from .residual_scaling_trained import collapse, gain, movement, optimum
from .statistics import absolute, over_seeds

_SCALINGS = ("none", "sqrt", "linear")

_residual_scaling = Paper(
    "arXiv 2606.18524",
    "language_scaling_",
    steps=20_000,
    size="12 to 48 layers, d = 768, FineWeb-Edu",
).claim


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Read each run's bits per byte after b loops. ConfigError for runs of pairs of numbers.

    `bits` are those per byte, [rates][seeds], by scaling and R, None where training collapsed;
    `best` is the best rate of each (None: no rate came through with every seed); `move` by scaling
    how many octaves the best rate moves from the fewest loops to the most; and `gain` how many bits
    per byte linear gains over sqrt, and over none, at the most loops. One loop is the same for all
    scalings.
    """
    bits = {}
    for run in runs:
        if not run.task.is_text:
            raise ConfigError("task", f"must be a text: {run.path} is not")
        scaling, rate = run.config.model.residual_scaling, run.config.training.learning_rate
        cell = (scaling, trained_loops(run.config), rate, run.config.seed)
        collapsed = collapse([each["loss"] for each in logged(run)])
        bits[cell] = np.nan if collapsed else bits_per_byte(run)
    found, loops, rates, seeds = (sorted(set(part)) for part in zip(*bits, strict=True))
    scalings = [each for each in _SCALINGS if each in found]

    def value(scaling: str, R: int, rate: float, seed: int) -> float:
        """Of one loop, that of any scaling."""
        same = (scaling, *_SCALINGS) if R == 1 else (scaling,)
        cells = [(each, R, rate, seed) for each in same]
        return next((bits[cell] for cell in cells if cell in bits), np.nan)

    errors = {
        (scaling, R): np.array(
            [[value(scaling, R, rate, seed) for seed in seeds] for rate in rates]
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


def _plain(values: Floats) -> list[list[float | None]]:
    return [[float(each) if np.isfinite(each) else None for each in row] for row in values]


def _panel(scaling: str, rates: Sequence[float], errors: Mapping[int, Floats]) -> Panel:
    """Bits per byte by rate, a curve for each number of loops."""
    lost = sum(int((~np.isfinite(values)).sum()) for values in errors.values())
    total = sum(values.size for values in errors.values())
    curves = [
        Curve.of(f"R = {R}", "loops", mean_of_seeds(values.T), number=R)
        for R, values in errors.items()
    ]
    title = f"{LABELS[scaling]}; {lost} of {total} runs collapsed"
    axes = ("learning rate", "bits per byte")
    return Panel(f"rates-{scaling}", title, *axes, rates, curves, log="x")


def _verdict(evidence: Evidence, kind: str, key: str) -> Any:
    """A movement or a gain; NotMeasured, with its reason, if it is unknown."""
    found = evidence.result("language_residual_scaling", kind)
    if key not in found:
        raise NotMeasured(f"no runs with residual_scaling={key}")
    if found[key]["verdict"] == "unknown":
        raise NotMeasured(found[key]["reason"])
    evidence.where(name="language")
    return found[key]


def _gain(evidence: Evidence, scaling: str) -> Estimate:
    return over_seeds(_verdict(evidence, "gain", scaling)["by_seed"])


def _fall(evidence: Evidence, scaling: str) -> Estimate:
    return over_seeds(np.negative(_verdict(evidence, "move", scaling)["by_seed"]))


for _name, _scaling, _label, _published in (
    ("linear_gains", "sqrt", "1/√R", "0.025 nats a token at R = 8"),
    ("linear_gains_over_none", "none", "no scaling", ""),
):
    _residual_scaling(
        _name,
        f"At its best learning rate 1/R has fewer bits per byte than {_label} with many loops.",
        "Figure 5",
        f"least bits per byte with {_label} less those with 1/R, at the most loops",
        0.0,
        "above",
        _published,
    )(partial(_gain, scaling=_scaling))

_residual_scaling(
    "linear_rate_stays",
    "With 1/R the best learning rate stays where it is however many loops there are.",
    "Figure 5",
    "octaves by which the best rate moves either way, most loops against one, linear",
    1.0,  # a step of the grid of rates
    "below",
    "a narrow band",
)(lambda evidence: absolute(_fall(evidence, "linear")))

for _scaling, _label in (("none", "no residual scaling"), ("sqrt", "1/√R")):
    _residual_scaling(
        f"{_scaling}_rate_falls",
        f"With {_label} the best learning rate falls with the number of loops.",
        "Figure 5",
        f"octaves by which the best rate falls, most loops against one, {_scaling}",
        0.5,  # half a step of the grid of rates
        "above",
    )(partial(_fall, scaling=_scaling))
