"""The speed of the baselines and the bootstrap, and their agreement with other implementations.

    python -m benchmarks.solvers curves=baseline_curves.json json=solvers.json

The Lasso runs in turn with a loop of scikit-learn's fits to the first few prompts, down to a
duality gap that ours does not exceed. For curves, a file of those of Yang et al.'s solvers, see
benchmarks/solver_curves.py.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from reloop.benchmarks.common import (
    Ratio,
    Ratios,
    Seconds,
    ratios_of,
    run_benchmark,
    seconds_of,
    write_report,
)
from reloop.benchmarks.settings import SolverSettings
from reloop.benchmarks.solver_curves import compare, read_curves
from reloop.benchmarks.timing import Times, measure
from reloop.evaluation.baselines.lasso import lasso_weights
from reloop.evaluation.baselines.linear import averaging, least_squares
from reloop.evaluation.baselines.neighbours import nearest_neighbours
from reloop.evaluation.bootstrap import Floats, bootstrap
from reloop.tasks import make_task

ALPHAS = (0.01, 1e-4, 1e-3, 0.1, 1.0)
_TOLERANCE = 1e-10  # scikit-learn's, of the gap over ‖y‖²/k
_CPU = torch.device("cpu")


class Lassos(Ratios):
    """The times per problem of scikit-learn's Lasso and of ours, and their duality gaps."""

    per_problem: dict[str, Seconds]
    largest_gap: dict[str, float]
    scikit_learn_tolerance: float
    scikit_learn_above_tolerance: int
    problems: dict[str, int]


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("solvers", SolverSettings, words, __doc__, _run)


def _run(settings: SolverSettings) -> None:
    """Measure, print and write; ConfigError for a file that holds no curves."""
    stored_curves = read_curves(Path(settings.curves)) if settings.curves else None
    size = {name: getattr(settings, name) for name in ("prompts", "points", "dims")}
    print("B = {prompts}, n = {points}, d = {dims}".format(**size), end="")
    print(f", {torch.get_num_threads()} threads")
    task = make_task("sparse_linear", settings.dims, settings={"sparsity": min(3, settings.dims)})
    prompts = task.sample(torch.Generator().manual_seed(0), settings.prompts, settings.points)
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    content: dict[str, object] = {
        "size": size,
        "exact_solvers": _exact_solvers(xs, ys, settings.pairs),
        "bootstrap": _bootstrap(settings.pairs),
        "lasso": {f"{alpha:g}": _lasso(xs, ys, alpha, settings) for alpha in ALPHAS},
    }
    write_report(settings.json, _CPU, content)
    if stored_curves:
        for comparison in compare(stored_curves, settings.curve_prompts, settings.seeds):
            # After every seed, so that an interruption loses only one.
            write_report(settings.json, _CPU, {**content, "curves": comparison})


def _exact_solvers(xs: Floats, ys: Floats, pairs: int) -> dict[str, object]:
    """Times of least squares, averaging and 3-nearest neighbours, and of all three."""
    solvers = (least_squares, averaging, nearest_neighbours)
    times = {solve.__name__: _times(partial(solve, xs, ys, xs), pairs) for solve in solvers}
    total = [sum(turn.wall for turn in turns) for turns in zip(*times.values(), strict=True)]
    for name, turns in times.items():
        print(f"{name:24}{_median([turn.wall for turn in turns]):10.3f} s")
    print(f"{'all three':24}{_median(total):10.3f} s")
    seconds = {name: seconds_of(turns) for name, turns in times.items()}
    return {**seconds, "all_three_wall_s": total}


def _bootstrap(pairs: int) -> dict[str, object]:
    """Times and peak memory of the bootstrap at the largest evaluation."""
    errors = np.random.default_rng(0).exponential(size=(1280, 101))
    times = _times(lambda: bootstrap(errors, resamples=1000, seed=0), pairs)
    tracemalloc.start()
    bootstrap(errors, resamples=1000, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    seconds = _median([turn.wall for turn in times])
    print(f"{'bootstrap of 1280 x 101':24}{seconds:10.3f} s{peak / 2**20:10.0f} MiB")
    sizes = {"prompts": 1280, "points": 101, "resamples": 1000}
    return {**sizes, "peak_bytes": peak, **seconds_of(times)}


def _lasso(xs: Floats, ys: Floats, alpha: float, settings: SolverSettings) -> Lassos:
    """Times per problem of ours and of scikit-learn's, in turn, and the duality gaps of both."""
    subset = (xs[: settings.fitted], ys[: settings.fitted])
    problems, fits = ys[:, 1:].size, subset[1][:, 1:].size
    weights_by_solver: dict[str, Floats] = {}

    def ours() -> None:
        weights_by_solver["ours"] = lasso_weights(xs, ys, alpha)

    def theirs() -> None:
        weights_by_solver["scikit_learn"] = _fits(*subset, alpha)

    turns = [(measure(theirs, 1, _CPU), measure(ours, 1, _CPU)) for _ in range(settings.pairs + 1)]
    times = {
        "scikit_learn": [_per_problem(turn, fits) for turn, _ in turns[1:]],  # the first warms up
        "ours": [_per_problem(turn, problems) for _, turn in turns[1:]],
    }
    ratios = ratios_of(*times.values())
    gaps = {
        name: relative_gaps(*subset, weights, alpha) for name, weights in weights_by_solver.items()
    }
    largest_gaps = {name: float(values.max()) for name, values in gaps.items()}
    microseconds = {
        name: 1e6 * _median([turn.wall for turn in side]) for name, side in times.items()
    }
    print(
        f"Lasso {alpha:<6g}"
        + "".join(
            f" {name} {microseconds[name]:7.1f} us a problem, gap <= {largest_gaps[name]:.1e};"
            for name in times
        )
        + f" ratio {Ratio(**ratios['ratio_wall'])}",
        flush=True,
    )
    return {
        "per_problem": {name: seconds_of(side) for name, side in times.items()},
        **ratios,
        "largest_gap": largest_gaps,
        "scikit_learn_tolerance": _TOLERANCE,
        "scikit_learn_above_tolerance": int((gaps["scikit_learn"] > 1.01 * _TOLERANCE).sum()),
        "problems": {"scikit_learn": fits, "ours": problems},
    }


def _fits(xs: Floats, ys: Floats, alpha: float) -> Floats:
    """Weights [B, n, d] by one fit of scikit-learn for each prefix."""
    solver = Lasso(alpha, fit_intercept=False, max_iter=100_000, tol=_TOLERANCE)
    weights = np.zeros(xs.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its gap is reported
        for b in range(len(xs)):
            for k in range(1, xs.shape[1]):
                weights[b, k] = solver.fit(xs[b, :k], ys[b, :k]).coef_
    return weights


def relative_gaps(xs: Floats, ys: Floats, weights: Floats, alpha: float) -> Floats:
    """Duality gaps over ‖y‖²/k of weights [B, n, d] on the prefixes of the first prompts of xs
    [A, n, d] and ys [A, n], A <= B: flat, computed from the definition."""
    gaps = []
    for b, k in np.ndindex(len(xs), xs.shape[1] - 1):
        x, y, w = xs[b, : k + 1], ys[b, : k + 1], weights[b, k + 1]
        residual, penalty = y - x @ w, alpha * (k + 1)
        steepest = np.abs(x.T @ residual).max()
        dual = residual * min(1.0, penalty / steepest) if steepest else residual
        primal = residual @ residual / 2 + penalty * np.abs(w).sum()
        gap = primal - (y @ y - (y - dual) @ (y - dual)) / 2
        gaps.append(gap / (y @ y) if y.any() else 0.0)
    return np.array(gaps)


def _times(step: Callable[[], object], pairs: int) -> list[Times]:
    step()  # a warm-up
    return [measure(step, 1, _CPU) for _ in range(pairs)]


def _per_problem(times: Times, problems: int) -> Times:
    return Times(*(seconds / problems for seconds in times))


def _median(values: list[float]) -> float:
    return float(np.median(values))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
