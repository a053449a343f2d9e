"""Results of measures (probing, tables, residual scaling, iso-depth) with a chosen quantity."""

from collections.abc import Callable
from typing import Any

import numpy as np

from looplab.experiments.claims import Evidence

from .synthetic import Made, evidence, seeds


def probed(ratio: float) -> Evidence:
    mean = np.interp(range(9), (0, 4, 8), (1.0, 0.4, 0.4 * ratio))
    ends = {"mean": mean, "low": mean * 0.99, "high": mean * 1.01}
    band = {name: values.tolist() for name, values in ends.items()}
    probing = {"b": 8, "targets": {"gradient": {"error": band}}}
    return evidence(seeds(family="looped", n_layer=1), probing={"looped": [probing] * 3})


def tables(difference: float) -> Evidence:
    accuracy: dict[str, Any] = {"mean": 0.7, "low": 0.69, "high": 0.71}
    entries = []
    for table in range(4):
        models: dict[str, Any] = {
            family: {
                "runs": [{"step": 100, "remarks": []}],
                "accuracy": {**accuracy, "mean": 0.7 + shift + 0.001 * table},
            }
            for family, shift in (("looped", difference), ("standard", 0.0))
        }
        entries.append({"label": f"table {table}", "models": models})
    return evidence(openml={"tables": entries})


def _residual_scaling(**result: Any) -> Evidence:
    init = {"name": "weak", "layers": 4, "width": 64}
    return evidence(residual_scaling={"init": init, "steps": 10, **result})


def _curve(values: Any) -> dict[str, Any]:
    """Values over loops or steps for three seeds that differ little."""
    return {"by_seed": [(np.array(values) * (1 + 0.01 * seed)).tolist() for seed in range(3)]}


def norms(ratio: float) -> Evidence:
    curve = _curve([[1.0, 1.0], [ratio, ratio]])
    return _residual_scaling(norm={"looped": {"sqrt": curve}})


def sweep(entry: Callable[[float], dict[str, Any]]) -> Made:
    best = {"2": {"error": 0.3}, "16": {"error": 0.3}}
    return lambda value: _residual_scaling(
        loops=[2, 16], initial=1.0, best={"sqrt": best, "linear": best}, **entry(value)
    )


def verdict(value: float) -> dict[str, Any]:
    return {"verdict": "gain", "by_seed": [value, 0.99 * value, 1.01 * value]}


def _variants(level: Callable[[str, int], float], plain: float = 0.5) -> Evidence:
    def cell(name: str, loops: int) -> dict[str, Any]:
        return {"error": _curve(level(name, loops))["by_seed"], "initial": [1.0] * 3}

    names = ("LT", "LT_i", "FLT")
    cells = {name: {str(loops): cell(name, loops) for loops in (4, 16)} for name in names}
    errors = _curve(plain)["by_seed"]
    return evidence(
        fully_looped={
            "loops": [4, 16], "variants": cells, "plain": errors, "left_below": 0.7, "steps": 10,
        }
    )  # fmt: skip


def of_many(*names: str) -> Made:
    """The named variants' error at the most loops is `value` times .4, all other errors .4."""
    return lambda value: _variants(
        lambda name, loops: 0.4 * value if name in names and loops == 16 else 0.4
    )


def law(phi: float = 0.5, cost: float = 1.0) -> Evidence:
    losses = [
        {"r": r, "width": width, "steps": 100, "loss": 0.2 + 0.1 * (cost if r == 4 else 1) + noise}
        for r in (1, 4)
        for width, noise in ((8, 0.001), (16, 0.002), (24, 0.0))
    ]
    settings = {"r": [1, 4], "steps": [100, 200], "depth": 8, "dims": 3}
    ends = {"value": phi, "low": phi - 0.1, "high": phi + 0.1}
    return evidence(
        iso_depth={"phi": ends, "not_determined": [], "losses": losses, "bayes": 0.2,
                   "settings": settings, "fitted": 6}
    )  # fmt: skip
