"""The pictures of `experiments.stability`'s figures of trainings as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reloop.evaluation.bootstrap import Interval, numbers
from reloop.experiments.stability.tables import LABELS

from ..curves import curve, over_seeds, padded, panel, without_interval
from ..results import Panel
from .near_init import cosine_panels

_Z = 1.645  # standard errors in half a 90 % interval
_ERROR = "error / error of predicting zero"
_METRICS = {
    "loss": "loss, smoothed",
    "last_residual": "residual norm, last loop",
    "first_residual": "residual norm, first loop",
    "mlp_grad_norm": "gradient norm of the first MLP, before clipping",
    "mlp_grad_norm_clipped": "gradient norm of the first MLP, clipped",
}


def sweep(result: Mapping[str, Any]) -> list[Panel]:
    """Error by rate, a panel for each scaling, a curve for each number of loops."""
    levels = {"predicting zero": result["zero"], "least possible": result["bayes"]}
    found = []
    for scaling, cells in result["scalings"].items():
        curves = [
            curve(f"R = {R}", "loops", over_seeds(list(zip(*cell["errors"], strict=True))), int(R))
            for R, cell in cells.items()
        ]
        errors = [e for cell in cells.values() for row in cell["errors"] for e in row]
        title = (
            f"{LABELS[scaling]}; {result['what']}; {errors.count(None)} of {len(errors)} runs "
            "collapsed"
        )
        name, axes = f"{result['figure']}-{scaling}", ("learning rate", _ERROR)
        found.append(panel(name, title, axes, result["rates"], curves, log="xy", levels=levels))
    return found


def variants(result: Mapping[str, Any]) -> list[Panel]:
    """Error by loops, a curve for each variant."""
    loops, plain = result["loops"], [error for error in result["plain"] if error is not None]
    curves = []
    for variant, cells in result["variants"].items():
        errors = [cells[str(K)]["error"] for K in loops]
        curves.append(curve(variant, variant, over_seeds(list(zip(*errors, strict=True)))))
    levels = {"one loop": float(np.mean(plain))} if plain else {}
    title = f"linear regression in context, two layers, {result['steps']:,} steps"
    return [panel("variants", title, ("loops K", _ERROR), loops, curves, log="x", levels=levels)]


def classes(result: Mapping[str, Any]) -> list[Panel]:
    """Error by loops, a panel for each function class, a curve for each variant."""
    loops, found = result["loops"], []
    for task, by_variant in result["tasks"].items():
        curves = []
        for variant, cells in by_variant.items():
            errors = [cells[str(K)]["error"] for K in loops]
            interval = over_seeds(list(zip(*errors, strict=True)))
            curves.append(curve(LABELS.get(variant, variant), variant, interval))
        title = f"{task.replace('_', ' ')}, {result['steps']:,} steps"
        name = f"classes-{task.replace('_', '-')}"
        found.append(panel(name, title, ("loops", _ERROR), loops, curves, log="x"))
    return found


def fully_looped(result: Mapping[str, Any]) -> list[Panel]:
    """A panel for each variant and metric, a curve for each number of loops; without intervals."""
    return [
        panel(
            f"fully-looped-{variant}-{metric.replace('_', '-')}",
            f"{variant}, {len(result['seeds'])} seeds",
            ("step", label),
            result["steps"],
            [
                curve(f"K = {K}", "loops", without_interval(numbers(curves[metric])), int(K))
                for K, curves in by_loops.items()
            ],
            log="y",
        )
        for variant, by_loops in result["curves"].items()
        for metric, label in _METRICS.items()
    ]


def trained(result: Mapping[str, Any]) -> list[Panel]:
    """Norms by loop, and cosines between increments; runs of one model are seeds of one curve."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in result["runs"]:
        groups.setdefault(run["what"], []).append(run)
    longest = 1 + max(run["loops"] for run in result["runs"])
    curves = []
    for what, runs in groups.items():
        means = [padded(run["norm"]["mean"], longest) for run in runs]
        interval = _over_prompts(runs[0]["norm"], longest) if len(runs) == 1 else over_seeds(means)
        curves.append(curve(what, "loops", interval, runs[0]["loops"]))
    axes = ("loop (0: the read-in)", "norm of a token's state before the norm")
    title = f"trained runs, {result['prompts']} prompts"
    matrices = [
        (what, "loops", np.array([run["cosine"] for run in runs], dtype=np.float64))
        for what, runs in groups.items()
        if runs[0]["loops"] > 1
    ]
    loops = [float(runs[0]["loops"]) for runs in groups.values() if runs[0]["loops"] > 1]
    return [
        panel("trained-norms", title, axes, range(longest), curves, log="y"),
        *(cosine_panels("trained-cosines", title, matrices, loops) if matrices else []),
    ]


def _over_prompts(norm: Mapping[str, Any], length: int) -> Interval:
    mean = numbers(padded(norm["mean"], length))
    half = _Z * numbers(padded(norm["standard_error"], length))
    return Interval(mean, mean - half, mean + half)


PANELS: Mapping[str, Callable[[Mapping[str, Any]], list[Panel]]] = {
    "sweep": sweep,
    "contrast": sweep,
    "variants": variants,
    "fully_looped": fully_looped,
    "classes": classes,
    "trained": trained,
}
