"""Bootstrap intervals of the fitted parameters of a scaling law: rows resampled in clusters.

result = intervals(table, fit, table.groups(["r", "budget"]), resamples=200, seed=0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reloop.conf.mistakes import RunError

from .fit import Fit, edges, fit_law, undetermined
from .problem import NAMES
from .search import RANGES
from .table import ScalingTable


@dataclass(frozen=True)
class Intervals:
    """The 5th and 95th percentile of each parameter over the resamples that could be fitted, `used`
    in number; `low_at_edge` and `high_at_edge`, the exponents without a percentile, because it, or
    the next resample outwards, ended at the edge of the search."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    used: int
    low_at_edge: tuple[str, ...]
    high_at_edge: tuple[str, ...]


def intervals(
    table: ScalingTable, fit: Fit, clusters: NDArray[np.intp], resamples: int, seed: int
) -> Intervals:
    """90 % intervals of a fit's parameters; `clusters` [rows] has the number of each row's cluster.

    Each resample weights the rows by how often their cluster was drawn, and its fit starts from the
    fit's law. One that cannot determine the free parameters (e.g. with a single r) is left out.
    Raises RunError for a single cluster, and if no more than half of the resamples can be fitted.
    """
    cluster_count = int(clusters.max()) + 1
    if cluster_count < 2:
        raise RunError("the table has one cluster only, of which there is nothing to resample")
    uniform = np.full(cluster_count, 1 / cluster_count)
    resample_counts = np.random.default_rng(seed).multinomial(
        cluster_count, uniform, size=resamples
    )
    fixed = {name: getattr(fit.law, name) for name in fit.fixed}
    samples = []
    for counts in resample_counts:
        weights = counts[clusters].astype(np.float64)
        if undetermined(table, fixed, weights > 0) is None:
            samples.append(astuple(fit_law(table, fixed, weights, fit.law).law))
    if 2 * len(samples) <= resamples:
        raise RunError(
            f"only {len(samples)} of {resamples} resamples of the {cluster_count} clusters can be "
            "fitted"
        )
    return percentiles(samples, [name for name in RANGES if name not in fixed])


def percentiles(samples: Sequence[tuple[float, ...]], free: Sequence[str]) -> Intervals:
    """The intervals of the parameters E, A, B, alpha, beta, phi of resamples; `free` are the
    exponents that were searched."""
    low, high = np.percentile(samples, (5, 95), axis=0).tolist()
    return Intervals(
        dict(zip(NAMES, low, strict=True)),
        dict(zip(NAMES, high, strict=True)),
        used=len(samples),
        low_at_edge=_open_ends(samples, free, 5, "lower"),
        high_at_edge=_open_ends(samples, free, 95, "higher"),
    )


def _open_ends(
    samples: Sequence[tuple[float, ...]],
    names: Sequence[str],
    percent: int,
    outwards: Literal["lower", "higher"],
) -> tuple[str, ...]:
    """The exponents whose percentile lies at the edge of the search, or between it and a value."""
    values = np.percentile(samples, percent, axis=0, method=outwards).tolist()
    return edges({name: values[NAMES.index(name)] for name in names})
