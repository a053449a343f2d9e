"""The measurements of a run's states as plain values: means over prompts with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reloop.evaluation.bootstrap import Band, bootstrap, plain
from reloop.evaluation.cache import Arrays

from .jacobian import Estimate
from .results import Contraction, Cosines, Factor, Residual, Summary
from .trajectory import Movements

_RESAMPLES = 1000  # of the bootstrap
_CONVERGED = 1e-6  # of the state's norm: a smaller fixed-point residual


def summary(movements: Movements, seed: int) -> Summary:
    """All but the Jacobian's factors: each part with its loops (or layers). The seed is that of the
    resamples."""
    arrays, ranks = movements.arrays(), movements.effective_ranks()
    loops = list(range(1, arrays["absolute"].shape[1] + 1))
    window = arrays["cosines"].shape[1]
    result: Summary = {
        "norm": {
            "loop": [0, *loops],
            "raw": _interval(arrays["raw"], seed),
            "stream": _interval(arrays["stream"], seed),
        },
        "change": {
            "loop": loops,
            "absolute": _interval(arrays["absolute"], seed),
            "relative": _interval(arrays["relative"], seed),
        },
        "cosines": _cosines(arrays["cosines"], loops[:window], seed),
        "effective_rank": {"loop": [0, *loops[:window]], "value": plain(np.array(ranks))},
    }
    if "residual" in arrays:
        result["residual"] = _residual(arrays, loops, seed)
    return result


def contraction(
    norms: Sequence[Estimate], radii: Sequence[Estimate], loop: int, seed: int
) -> Contraction:
    """Both factors at this loop from all batches, with the largest change of each at the end of its
    iteration, and the share of prompts whose spectral radius is below 1."""
    radius = _factor(radii, seed)
    return {
        "loop": loop,
        "spectral_norm": _factor(norms, seed),
        "spectral_radius": radius,
        "below_one": _share(np.array(radius["by_prompt"]) < 1, seed),
    }


def _factor(batches: Sequence[Estimate], seed: int) -> Factor:
    values = np.concatenate([batch.values.cpu().numpy() for batch in batches])
    return {
        **_interval(values[:, None], seed),
        "by_prompt": values.tolist(),
        "remaining_change": max(float(batch.change.max()) for batch in batches),
        "iterations": max(batch.iterations for batch in batches),
    }


def _residual(arrays: Arrays, loops: list[int], seed: int) -> Residual:
    """The means; the spread over prompts, of which some may converge and others not; and the share
    that has converged at the last loop."""
    absolute, relative = arrays["residual"], arrays["relative_residual"]
    low, median, high = np.quantile(relative, (0.05, 0.5, 0.95), axis=0)
    return {
        "loop": loops,
        "absolute": _interval(absolute, seed),
        "relative": _interval(relative, seed),
        "over_prompts": {
            "median": plain(median),
            "percentile_5": plain(low),
            "percentile_95": plain(high),
        },
        "at_rest": {"below": _CONVERGED, **_share(relative[:, -1] < _CONVERGED, seed)},
    }


def _cosines(values: NDArray[Any], loops: list[int], seed: int) -> Cosines:
    """The matrix with its intervals, row by row; the cosines of consecutive increments, by the
    earlier one's loop; and the mean over all pairs of different ones."""
    window = len(loops)
    rows = [_interval(values[:, loop], seed) for loop in range(window)]
    off_diagonal = values[:, ~np.eye(window, dtype=bool)]
    # Pairs of which one increment is zero (late loops, once converged) have no cosine.
    valid = ~np.isnan(off_diagonal).any(0)
    pairs = _interval(off_diagonal[:, valid].mean(1, keepdims=True), seed) if valid.any() else None
    return {
        "loop": loops,
        "mean": [row["mean"] for row in rows],
        "low": [row["low"] for row in rows],
        "high": [row["high"] for row in rows],
        "consecutive": _interval(np.diagonal(values, 1, axis1=1, axis2=2), seed),
        "pairs": pairs,
    }


def _share(condition: NDArray[np.bool_], seed: int) -> Band:
    return _interval(condition[:, None].astype(np.float64), seed)


def _interval(values: NDArray[Any], seed: int) -> Band:
    return bootstrap(values, _RESAMPLES, seed).to_json()
