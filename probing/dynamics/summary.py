"""The measurements of a run's states as plain values: means over prompts with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reloop.evaluation.bootstrap import bootstrap
from reloop.evaluation.cache import Arrays

from .jacobian import Estimate
from .trajectory import Movements

_RESAMPLES = 1000  # of the bootstrap
_CONVERGED = 1e-6  # of the state's norm: a smaller fixed-point residual

Curve = dict[str, list[float | None]]


def summary(movements: Movements, seed: int) -> dict[str, Any]:
    """All but the Jacobian's factors: each part with its loops (or layers). The seed is that of the
    resamples."""
    arrays, ranks = movements.arrays(), movements.effective_ranks()
    loops = list(range(1, arrays["absolute"].shape[1] + 1))
    window = arrays["cosines"].shape[1]
    result: dict[str, Any] = {
        "norm": {"loop": [0, *loops], **_intervals(arrays, ("raw", "stream"), seed)},
        "change": {"loop": loops, **_intervals(arrays, ("absolute", "relative"), seed)},
        "cosines": {"loop": loops[:window], **_cosines(arrays["cosines"], seed)},
        "effective_rank": {"loop": [0, *loops[:window]], "value": _plain(np.array(ranks))},
    }
    if "residual" in arrays:
        result["residual"] = {"loop": loops, **_residual(arrays, seed)}
    return result


def contraction(
    norms: Sequence[Estimate], radii: Sequence[Estimate], loop: int, seed: int
) -> dict[str, Any]:
    """Both factors at this loop from all batches, with the largest change of each at the end of its
    iteration, and the share of prompts whose spectral radius is below 1."""
    result: dict[str, Any] = {"loop": loop}
    for name, parts in (("spectral_norm", norms), ("spectral_radius", radii)):
        values = np.concatenate([part.values.cpu().numpy() for part in parts])
        result[name] = {
            **_interval(values[:, None], seed),
            "by_prompt": values.tolist(),
            "remaining_change": max(float(part.change.max()) for part in parts),
            "iterations": max(part.iterations for part in parts),
        }
    below = np.array(result["spectral_radius"]["by_prompt"]) < 1
    return result | {"below_one": _share(below, seed)}


def _residual(arrays: Arrays, seed: int) -> dict[str, Any]:
    """The means; the spread over prompts, of which some may converge and others not; and the share
    that has converged at the last loop."""
    absolute, relative = arrays["residual"], arrays["relative_residual"]
    low, median, high = np.quantile(relative, (0.05, 0.5, 0.95), axis=0)
    return {
        "absolute": _interval(absolute, seed),
        "relative": _interval(relative, seed),
        "over_prompts": {
            "median": _plain(median),
            "percentile_5": _plain(low),
            "percentile_95": _plain(high),
        },
        "at_rest": {"below": _CONVERGED, **_share(relative[:, -1] < _CONVERGED, seed)},
    }


def _cosines(values: NDArray[Any], seed: int) -> dict[str, Any]:
    """The matrix with its intervals, row by row; the cosines of consecutive increments, by the
    earlier one's loop; and the mean over all pairs of different ones."""
    window = values.shape[1]
    rows = [_interval(values[:, loop], seed) for loop in range(window)]
    off_diagonal = values[:, ~np.eye(window, dtype=bool)]
    # Pairs of which one increment is zero (late loops, once converged) have no cosine.
    valid = ~np.isnan(off_diagonal).any(0)
    pairs = _interval(off_diagonal[:, valid].mean(1, keepdims=True), seed) if valid.any() else None
    return {
        **{part: [row[part] for row in rows] for part in ("mean", "low", "high")},
        "consecutive": _interval(np.diagonal(values, 1, axis1=1, axis2=2), seed),
        "pairs": pairs,
    }


def _share(condition: NDArray[np.bool_], seed: int) -> Curve:
    return _interval(condition[:, None].astype(np.float64), seed)


def _intervals(arrays: Arrays, names: Sequence[str], seed: int) -> dict[str, Curve]:
    return {name: _interval(arrays[name], seed) for name in names}


def _interval(values: NDArray[Any], seed: int) -> Curve:
    return bootstrap(values, _RESAMPLES, seed).to_json()


def _plain(values: NDArray[Any]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
