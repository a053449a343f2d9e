"""'Simply Stabilizing the Loop via Fully Looped Transformer' (arXiv 2605.18797) on linear
regression in context: error, plateau and collapse of its loops, their norms in training, and the
claims of its Table 1, on Evidence.results["stability"]["variants"]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from looplab.evaluation.bootstrap import Floats, numbers
from looplab.evaluation.panel import Curve, Panel, mean_of_seeds, without_interval
from looplab.training.assemble import build_task
from looplab.training.run_folder.metrics import smoothed

from .claims import Estimate, Evidence, Measured, NotMeasured, Paper
from .measuring import Measurement, Request, measure_figures
from .residual_scaling_trained import (
    DECAY,
    ERROR,
    collapse,
    final_error,
    grid,
    initial_error,
    logged_curve,
    plateau_exit,
)
from .statistics import over_seeds

LEFT = 0.7  # of the initial error: a smoothed loss below it has left the plateau
_EVERY = 10  # steps between the points of a curve; the last step is always one
_METRICS = {  # of metrics.jsonl, and what they are
    "loss": "loss, smoothed",
    "last_residual": "residual norm, last loop",
    "first_residual": "residual norm, first loop",
    "mlp_grad_norm_clipped": "gradient norm of the first MLP, clipped",
    "mlp_grad_norm": "gradient norm of the first MLP, before clipping",
}


def measure(request: Request) -> Measurement:
    """Measure the figures that the request's settings name."""
    return measure_figures(
        request,
        {
            "variants": lambda runs, given: variants(runs),
            "fully_looped": lambda runs, given: in_training(runs),
        },
    )


def variants(runs: Sequence[Measured]) -> dict[str, Any]:
    """Compare connectivities, all of them at the same numbers of loops K, beside LT of one loop,
    which is the same model for all: `plain`, its errors [seeds]. `variants` has by connectivity and
    K, of each seed, the `error` (None where it diverged) and the `initial` one, `left`, the step
    that leaves the plateau (None: never), and `collapse`, the reason (empty: it did not)."""
    cells = _cells(runs)
    plain = np.array([final_error(run) for run in cells.pop(("LT", 1))])
    reference = float(plain[np.isfinite(plain)].mean()) if np.isfinite(plain).any() else None
    found: dict[str, dict[str, Any]] = {}
    for (name, K), of in cells.items():
        found.setdefault(name, {})[str(K)] = _cell(of, reference)
    result = {
        "loops": sorted({K for _, K in cells}),
        "rate": runs[0].config.training.learning_rate,
        "seeds": sorted({run.config.seed for run in runs}),
        "steps": runs[0].config.training.steps,
        "plain": [_plain(error) for error in plain],
        "left_below": LEFT,
        "variants": found,
    }
    return {**result, "panels": _panels(result)}


def _cells(runs: Sequence[Measured]) -> dict[tuple[str, int], list[Measured]]:
    """The runs [seeds] of each connectivity and number of loops."""
    places = grid(runs, lambda c: (c.model.connectivity, c.loops.b, c.seed))
    cells: dict[tuple[str, int], list[Measured]] = {(name, K): [] for name, K, _ in places}
    for (name, K, _), run in sorted(places.items(), key=lambda place: place[0][2]):
        cells[name, K].append(run)
    return cells


def _cell(runs: Sequence[Measured], plain: float | None) -> dict[str, list[Any]]:
    """What `variants` has of a connectivity and number of loops; `plain` is the mean error of one
    loop, if known."""
    errors = [final_error(run) for run in runs]
    initial = [initial_error(run.config) for run in runs]
    losses = [logged_curve(run, "loss") / build_task(run.config).divisor for run in runs]
    return {
        "error": [_plain(error) for error in errors],
        "initial": initial,
        "left": [
            plateau_exit(*pair) for pair in zip(losses, LEFT * np.array(initial), strict=True)
        ],
        "collapse": [collapse(*pair, plain) for pair in zip(losses, errors, strict=True)],
    }


def _plain(error: float) -> float | None:
    return float(error) if np.isfinite(error) else None


def _panels(result: dict[str, Any]) -> list[Panel]:
    """Error, and the step that leaves the plateau, by loops, a curve for each variant."""
    loops, variants = result["loops"], result["variants"]
    plain = [error for error in result["plain"] if error is not None]
    collapsed = [
        why for of in variants.values() for cell in of.values() for why in cell["collapse"]
    ]
    title = (
        f"linear regression in context, two layers, {result['steps']:,} steps; "
        f"{sum(map(bool, collapsed))} of {len(collapsed)} runs collapsed"
    )
    levels = {"one loop": float(np.mean(plain))} if plain else {}
    below = f"step at which the smoothed loss falls below {LEFT:g} of the initial error"
    found = []
    for name, key, axis in (("variants", "error", ERROR), ("variants-plateau", "left", below)):
        curves = []
        for variant, cells in variants.items():
            values = [cells[str(K)][key] for K in loops]
            curve = Curve.of(variant, variant, mean_of_seeds(list(zip(*values, strict=True))))
            curves += [curve] if any(value is not None for value in curve.mean) else []
        if curves:
            found.append(Panel(name, title, "loops K", axis, loops, curves, log="x", levels=levels))
        levels = {}
    return found


def in_training(runs: Sequence[Measured]) -> dict[str, Any]:
    """Residual norm, gradient norm of the first MLP and loss over the error of predicting zero, of
    runs with log_norms (Figures 2 and 3): `curves`, for each connectivity, number of loops and
    metric the smoothed curve [points], the mean over the seeds that are finite there, None if there
    is none, at `steps`, counted from 1. The pictures have no intervals."""
    total, rate = runs[0].config.training.steps, runs[0].config.training.learning_rate
    steps = [*range(_EVERY, total, _EVERY), total]
    curves: dict[str, dict[str, dict[str, list[float | None]]]] = {}
    cells = _cells(runs)
    for (name, K), of in cells.items():
        divisor = build_task(of[0].config).divisor
        curves.setdefault(name, {})[str(K)] = {
            metric: _smooth(
                [logged_curve(run, metric) / (divisor if metric == "loss" else 1) for run in of],
                steps,
            )
            for metric in _METRICS
        }
    seeds = sorted({run.config.seed for run in runs})
    panels = [
        Panel(
            f"fully-looped-{variant}-{metric.replace('_', '-')}",
            f"{variant}, {len(seeds)} seeds, rate {rate:g}", "step", label, steps,
            [
                Curve.of(f"K = {K}", "loops", without_interval(numbers(of[metric])), number=int(K))
                for K, of in by_loops.items()
            ],
            log="y", picture="fully_looped",
        )
        for variant, by_loops in curves.items()
        for metric, label in _METRICS.items()
    ]  # fmt: skip
    loops = sorted({K for _, K in cells})
    found = {"steps": steps, "loops": loops, "rate": rate, "seeds": seeds, "curves": curves}
    return {**found, "panels": panels}


def _smooth(values: Sequence[Floats], steps: Sequence[int]) -> list[float | None]:
    """The mean over the finite seeds of smoothed curves [seeds][steps], at these steps."""
    selected = smoothed(np.stack(values, axis=1), DECAY)[np.array(steps) - 1]
    return [
        _plain(row[np.isfinite(row)].mean()) if np.isfinite(row).any() else None for row in selected
    ]


# 1.04 is the largest ratio of FLT, and of LT_i from 3 loops to 9, in Table 1; LT's is 1.16.
_KEEPS = 1.1


_of_paper = Paper("arXiv 2605.18797", "fully_looped_", steps=4848, size="6 layers, d = 384").claim


def _result(evidence: Evidence) -> Any:
    """The variants; NotMeasured if a model of one loop has not learned either."""
    result = evidence.result("stability", "variants")
    plain = _errors(result["plain"], "one loop")
    initial = np.mean([cell["initial"] for cell in result["variants"]["LT"].values()])
    if plain.mean() > result["left_below"] * initial:
        raise NotMeasured("one loop is still on the plateau: too few steps")
    return result


def _final(result: Any, variant: str, loops: int) -> Floats:
    """The final errors of a variant, [seeds], at the `loops`-th number of loops."""
    K = result["loops"][loops]
    return _errors(result["variants"][variant][str(K)]["error"], f"{variant}, K = {K}")


def _errors(values: list[float | None], what: str) -> Floats:
    if any(value is None for value in values):
        raise NotMeasured(f"{what}: a run's error is not finite")
    return np.array(values, dtype=np.float64)


def _ratio(result: Any, above: Floats, below: Floats) -> Estimate:
    """The ratio of two errors of the same seeds."""
    if len(result["loops"]) < 2:
        raise NotMeasured("one number of loops")
    estimate = over_seeds(above / below, log=True)
    return estimate._replace(steps=result["steps"], size="2 layers, d = 32")


@_of_paper(
    "LT_worsens",
    "A plain looped transformer (LT) gets worse with more loops.",
    "Table 1",
    "final error, the most loops over the fewest, LT",
    1.0,
    "above",
    "1.16 (perplexity 78.79 / 67.80, 9 loops against 3)",
)
def lt_worsens(evidence: Evidence) -> Estimate:
    """Between the loops that were tried."""
    result = _result(evidence)
    return _ratio(result, _final(result, "LT", -1), _final(result, "LT", 0))


@_of_paper(
    "LT_worse_than_one_loop",
    "A plain looped transformer (LT) of many loops is worse than one of a single loop.",
    "Table 1",
    "final error, LT at the most loops over one loop",
    1.0,
    "above",
    "",
)
def lt_worse_than_one_loop(evidence: Evidence) -> Estimate:
    """One loop is the same model for all variants."""
    result = _result(evidence)
    return _ratio(result, _final(result, "LT", -1), _errors(result["plain"], "one loop"))


def _keeps(variant: str, published: str) -> None:
    @_of_paper(
        f"{variant}_keeps",
        f"With more loops {variant} does not get worse.",
        "Table 1",
        f"final error, the most loops over the fewest, {variant}",
        _KEEPS,
        "below",
        published,
    )
    def keeps(evidence: Evidence) -> Estimate:
        result = _result(evidence)
        few = _final(result, variant, 0)
        cell = result["variants"][variant][str(result["loops"][0])]
        if few.mean() > result["left_below"] * np.mean(cell["initial"]):
            raise NotMeasured(f"{variant} is on the plateau with the fewest loops already")
        return _ratio(result, _final(result, variant, -1), few)


_keeps("FLT", "1.01 (perplexity 63.29 / 62.76)")
_keeps("LT_i", "0.99 (perplexity 62.31 / 62.76)")


@_of_paper(
    "FLT_below_LT",
    "With many loops the fully looped transformer has less error than the plain one.",
    "Table 1",
    "final error at the most loops, FLT over LT",
    1.0,
    "below",
    "0.80 (perplexity 63.29 / 78.79, 9 loops)",
)
def flt_below_lt(evidence: Evidence) -> Estimate:
    """The same seeds of both."""
    result = _result(evidence)
    return _ratio(result, _final(result, "FLT", -1), _final(result, "LT", -1))
