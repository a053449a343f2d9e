"""The certainty of each parameter of a fitted law: intervals by fits to rows resampled in clusters,
and what the counts of the table cannot tell.

known = certainty(table, fit, clusters, resamples=200, seed=0)
known.low["phi"], known.high["phi"], known.not_determined
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from looplab.conf.mistakes import RunError

from .law import NAMES, RANGES, Fit, Problem, edges, fit_law, undetermined
from .table import Floats, ScalingTable

_NO_E = 0.05  # of the lowest loss: an E of at most this counts as determined, close to 0
_BADLY = 2.0  # the ratio of the ends of an interval
_NOTHING = 1e-9  # of the largest singular value, and of a direction: rounding


@dataclass(frozen=True)
class Certainty:
    """The 5th and 95th percentile of each parameter over the resamples that could be fitted, `used`
    in number; `low_at_edge` and `high_at_edge`, the exponents without a percentile, because it, or
    the next resample outwards, ended at the edge of the search; `not_determined`, the reason for
    each parameter that is not; `factors`, the ratio of the ends for each other one but phi whose
    ends are far apart."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    used: int
    low_at_edge: tuple[str, ...]
    high_at_edge: tuple[str, ...]
    not_determined: Mapping[str, str]
    factors: Mapping[str, float]


def certainty(
    table: ScalingTable, fit: Fit, clusters: NDArray[np.intp], resamples: int, seed: int
) -> Certainty:
    """90 % intervals of a fit's parameters; `clusters` [rows] has the number of each row's cluster.

    Each resample weights the rows by how often their cluster was drawn, and its fit starts from the
    fit's law. One that cannot determine the free parameters (e.g. with a single r) is left out. A
    parameter is not determined if the table has too few values for it, if its interval is open, and
    if E may as well be 0. Raises RunError for a single cluster, and if no more than half of the
    resamples can be fitted.
    """
    samples = resampled(table, fit, clusters, resamples, seed)
    free = [name for name in NAMES if name not in fit.fixed]
    searched = [name for name in RANGES if name in free]
    ends = np.percentile(samples, (5, 95), axis=0).tolist()
    low, high = (dict(zip(NAMES, values, strict=True)) for values in ends)
    below, above = (
        _open_ends(samples, searched, 5, "lower"),
        _open_ends(samples, searched, 95, "higher"),
    )
    unidentified = unidentifiable(table, fit.fixed)
    reasons: dict[str, str] = {}
    for name in free:
        if name in unidentified:
            reasons[name] = f"{describe_counts(table)} cannot tell, however exact the losses"
        elif name in (*below, *above):
            reasons[name] = "where the search for it ends, the losses are fitted as well"
        elif name == "E" and low[name] < _NO_E * table.loss.min() < high[name]:
            reasons[name] = f"all from {low[name]:.2g} to {high[name]:.3g} fit the losses as well"
    for term, exponent in (("A", "alpha"), ("B", "beta")):
        if exponent in reasons:
            reasons.setdefault(term, reasons[exponent])
    factors = {
        name: high[name] / low[name]
        for name in free
        if name not in reasons and name != "phi" and high[name] > _BADLY * low[name] > 0
    }
    reasons = {name: reasons[name] for name in NAMES if name in reasons}
    return Certainty(low, high, len(samples), below, above, reasons, factors)


def resampled(
    table: ScalingTable, fit: Fit, clusters: NDArray[np.intp], resamples: int, seed: int
) -> list[tuple[float, ...]]:
    """The parameters E, A, B, alpha, beta, phi fitted to each resample that determines them."""
    cluster_count = int(clusters.max()) + 1
    if cluster_count < 2:
        raise RunError("the table has one cluster only, of which there is nothing to resample")
    uniform = np.full(cluster_count, 1 / cluster_count)
    drawn = np.random.default_rng(seed).multinomial(cluster_count, uniform, size=resamples)
    fixed = {name: getattr(fit.law, name) for name in fit.fixed}
    samples = []
    for counts in drawn:
        weights = counts[clusters].astype(np.float64)
        if undetermined(table, fixed, weights > 0) is None:
            samples.append(astuple(fit_law(table, fixed, weights, fit.law).law))
    if 2 * len(samples) <= resamples:
        raise RunError(
            f"only {len(samples)} of {resamples} resamples of the {cluster_count} clusters can be "
            "fitted"
        )
    return samples


def _open_ends(
    samples: Sequence[tuple[float, ...]],
    names: Sequence[str],
    percent: int,
    outwards: Literal["lower", "higher"],
) -> tuple[str, ...]:
    """The exponents whose percentile lies at the edge of the search, or between it and a value."""
    values = np.percentile(samples, percent, axis=0, method=outwards).tolist()
    return edges({name: values[NAMES.index(name)] for name in names})


def unidentifiable(table: ScalingTable, fixed: Collection[str]) -> tuple[str, ...]:
    """The free parameters (not `fixed`) that can change, together with others, without changing
    any loss of the table.

    With an additive constant E, n values of D give n - 1 differences: three determine B, beta and,
    by the remaining level, E; two do not, unless E is fixed and the sizes determine A and alpha.
    The same holds for sizes and loops. Counts alone do not reveal all cases (sizes that grow with
    D), but the derivatives of the losses do: a direction in which all of them vanish at generic
    exponents is one in which they vanish everywhere.
    """
    problem = Problem.of(table, np.ones(len(table)))
    theta = np.array([0.0, 0.0, 0.0, _power(problem.once, problem.rec), _power(problem.data), 0.37])
    free = [index for index, name in enumerate(NAMES) if name not in fixed]
    slopes = problem.slopes(theta)[1][:, free]
    slopes = slopes / np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
    sizes, axes = np.linalg.svd(slopes)[1:]
    rank = int(np.count_nonzero(sizes > _NOTHING * sizes[0]))
    in_null_space = np.abs(axes[rank:]).max(axis=0, initial=0) > 1e-6
    names = {NAMES[index] for index, is_free in zip(free, in_null_space, strict=True) if is_free}
    # A and B of the problem are the terms at the middle sizes: the law's depend on the exponents.
    names |= {term for term, exponent in (("A", "alpha"), ("B", "beta")) if exponent in names}
    return tuple(name for name in NAMES if name in names)


def describe_counts(table: ScalingTable) -> str:
    """The number of values of each variable, as text."""
    numbers = (len(np.unique(each)) for each in (table.parameters, table.D, table.r))
    return "{} values of N, {} of D and {} of r".format(*numbers)


def _power(*logarithms: Floats) -> float:
    """An exponent at which a term changes by about e over the spread of its sizes."""
    spread = float(np.logaddexp.reduce(logarithms).std())
    return 0.83 / spread if spread > 0 else 0.83
