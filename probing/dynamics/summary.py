"""What was measured of a run's states prompt by prompt, as plain values: means with intervals."""

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
_AT_REST = 1e-6  # of the state's norm: a smaller fixed-point residual

Curve = dict[str, list[float | None]]


def summary(movements: Movements, seed: int) -> dict[str, Any]:
    """Everything but the Jacobian's: each part with the loops (or layers) it is known at. The seed
    is that of the resamples."""
    arrays, ranks = movements.arrays(), movements.effective_ranks()
    loops = list(range(1, arrays["absolute"].shape[1] + 1))
    near = arrays["cosines"].shape[1]
    result: dict[str, Any] = {
        "norm": {"loop": [0, *loops], **_intervals(arrays, ("raw", "stream"), seed)},
        "change": {"loop": loops, **_intervals(arrays, ("absolute", "relative"), seed)},
        "cosines": {"loop": loops[:near], **_cosines(arrays["cosines"], seed)},
        "effective_rank": {"loop": [0, *loops[:near]], "value": _plain(np.array(ranks))},
    }
    if "residual" in arrays:
        result["residual"] = {"loop": loops, **_residual(arrays, seed)}
    return result


def contraction(
    norms: Sequence[Estimate], radii: Sequence[Estimate], loop: int, seed: int
) -> dict[str, Any]:
    """Both factors, of batch after batch at this loop, with the most that either still changed at
    the end of its iteration, and the share of prompts whose spectral radius is below 1."""
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
    """Its means; how it spreads over prompts, of which some may come to rest and others not; and
    how many have at the last loop."""
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
        "at_rest": {"below": _AT_REST, **_share(relative[:, -1] < _AT_REST, seed)},
    }


def _cosines(values: NDArray[Any], seed: int) -> dict[str, Any]:
    """The matrix with its intervals, row by row, and means of it: of increments that follow each
    other, by the earlier one's loop, and of all pairs of different ones."""
    near = values.shape[1]
    rows = [_interval(values[:, loop], seed) for loop in range(near)]
    apart = values[:, ~np.eye(near, dtype=bool)]
    # Pairs of which one has come to rest have no angle; they are those of late loops.
    known = ~np.isnan(apart).any(0)
    pairs = _interval(apart[:, known].mean(1, keepdims=True), seed) if known.any() else None
    return {
        **{part: [row[part] for row in rows] for part in ("mean", "low", "high")},
        "consecutive": _interval(np.diagonal(values, 1, axis1=1, axis2=2), seed),
        "pairs": pairs,
    }


def _share(holds: NDArray[np.bool_], seed: int) -> Curve:
    return _interval(holds[:, None].astype(np.float64), seed)


def _intervals(arrays: Arrays, names: Sequence[str], seed: int) -> dict[str, Curve]:
    return {name: _interval(arrays[name], seed) for name in names}


def _interval(values: NDArray[Any], seed: int) -> Curve:
    return bootstrap(values, _RESAMPLES, seed).to_json()


def _plain(values: NDArray[Any]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
