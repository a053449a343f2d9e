"""How far the fitted parameters of a scaling law could be off: rows resampled in clusters.

found = intervals(table, fit, table.groups(["r", "budget"]), resamples=200, seed=0)
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
    """The 5th and 95th percentile of each parameter over the resamples that could be fitted, which
    are `used`; `low_at_edge` and `high_at_edge`, the exponents whose percentile is none, because so
    many resamples ended where the search does that the next one outwards did."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    used: int
    low_at_edge: tuple[str, ...]
    high_at_edge: tuple[str, ...]


def intervals(
    table: ScalingTable, fit: Fit, clusters: NDArray[np.intp], resamples: int, seed: int
) -> Intervals:
    """90 % intervals of a fit's parameters; `clusters` [rows] says which rows stay together.

    Each resample weighs the rows by how often their cluster was drawn and is fitted from the
    fit's own law. One that cannot determine the free parameters (all of one r, say) is left out.
    Raises RunError for a single cluster, and where no more than half of the resamples can be
    fitted.
    """
    number = int(clusters.max()) + 1
    if number < 2:
        raise RunError("the table has one cluster only, of which there is nothing to resample")
    uniform = np.full(number, 1 / number)
    times = np.random.default_rng(seed).multinomial(number, uniform, size=resamples)
    held = {name: getattr(fit.law, name) for name in fit.held}
    found = []
    for drawn in times:
        weights = drawn[clusters].astype(np.float64)
        if undetermined(table, held, weights > 0) is None:
            found.append(astuple(fit_law(table, held, weights, fit.law).law))
    if 2 * len(found) <= resamples:
        raise RunError(
            f"only {len(found)} of {resamples} resamples of the {number} clusters can be fitted"
        )
    low, high = np.percentile(found, (5, 95), axis=0).tolist()
    free = [name for name in RANGES if name not in held]
    return Intervals(
        dict(zip(NAMES, low, strict=True)),
        dict(zip(NAMES, high, strict=True)),
        used=len(found),
        low_at_edge=_open(found, free, 5, "lower"),
        high_at_edge=_open(found, free, 95, "higher"),
    )


def _open(
    found: Sequence[tuple[float, ...]],
    names: Sequence[str],
    percent: int,
    outwards: Literal["lower", "higher"],
) -> tuple[str, ...]:
    """Those whose percentile lies at the search's edge, or between it and a value."""
    values = np.percentile(found, percent, axis=0, method=outwards).tolist()
    return edges({name: values[NAMES.index(name)] for name in names})
