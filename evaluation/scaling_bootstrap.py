"""How far the fitted parameters of a scaling law could be off: rows resampled in clusters.

found = intervals(table, fit, table.groups(["r", "budget"]), resamples=200, seed=0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from conf.checks import RunError

from .scaling_fit import Fit, fit_law, undetermined
from .scaling_problem import NAMES
from .scaling_table import ScalingTable


@dataclass(frozen=True)
class Intervals:
    """The 5th and 95th percentile of each parameter over the resamples that could be fitted, which
    are `used`."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    used: int


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
    by_name = [dict(zip(NAMES, values, strict=True)) for values in (low, high)]
    return Intervals(by_name[0], by_name[1], used=len(found))
