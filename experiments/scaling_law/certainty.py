"""The certainty of each parameter of a fitted law, from the counts of the table, the profiles and
the resamples.

result = certainty(table, fit, intervals(…), profiles(table, fit))
result.low["phi"], result.high["phi"], result.not_determined
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from .bootstrap import Intervals
from .fit import Fit
from .problem import NAMES, Problem
from .profile import LEAST_NOISE, Profiles
from .table import Floats, ScalingTable

_WIDER = 2.0  # a profile's interval over the resamples': beyond, these were fitted badly
_NO_E = 0.05  # of the lowest loss: an E of at most this counts as determined, close to 0
_BADLY = 2.0  # the ratio of the ends of an interval
_NOTHING = 1e-9  # of the largest singular value, and of a direction: rounding


@dataclass(frozen=True)
class Certainty:
    """The outer ends of profile and resamples, for each parameter (both ends of a fixed one are its
    value); `low_at_edge` and `high_at_edge`, those whose interval is open, because the search ends
    before it; `not_determined`, the reason for each parameter that is not; `factors`, the ratio of
    the ends for each other one but phi whose ends are far apart."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    low_at_edge: tuple[str, ...]
    high_at_edge: tuple[str, ...]
    not_determined: Mapping[str, str]
    factors: Mapping[str, float]


def certainty(
    table: ScalingTable, fit: Fit, bootstrap_intervals: Intervals, profile_intervals: Profiles
) -> Certainty:
    """An interval is never narrower than the profile's. A parameter is not determined if the table
    has too few values for it, if its profile is open, if E may as well be 0, and if the profile's
    interval is more than twice as wide as the resamples': their fits then stayed near their start
    although the losses do not require it."""
    low = {**bootstrap_intervals.low} | {
        k: min(v, bootstrap_intervals.low[k]) for k, v in profile_intervals.low.items()
    }
    high = {**bootstrap_intervals.high} | {
        k: max(v, bootstrap_intervals.high[k]) for k, v in profile_intervals.high.items()
    }
    low_edges = {*bootstrap_intervals.low_at_edge, *profile_intervals.low_at_edge}
    high_edges = {*bootstrap_intervals.high_at_edge, *profile_intervals.high_at_edge}
    unidentified = unidentifiable(table, fit.fixed)
    reasons: dict[str, str] = {}
    for name in profile_intervals.low:
        if name in unidentified:
            reasons[name] = f"{describe_counts(table)} cannot tell, however exact the losses"
        elif name in low_edges | high_edges:
            reasons[name] = "where the search for it ends, the losses are fitted as well"
        elif name == "E" and low[name] == 0 and high[name] > _NO_E * table.loss.min():
            reasons[name] = f"all from 0 to {high[name]:.3g} fit the losses as well"
        elif _flat(name, bootstrap_intervals, profile_intervals):
            reasons[name] = "the losses leave it freer than resampling them shows"
    for term, exponent in (("A", "alpha"), ("B", "beta")):
        if exponent in reasons:
            reasons.setdefault(term, reasons[exponent])
    reasons = {name: reasons[name] for name in NAMES if name in reasons}
    factors = {
        name: high[name] / low[name]
        for name in profile_intervals.low
        if name not in reasons and name != "phi" and high[name] > _BADLY * low[name] > 0
    }
    low_at_edge, high_at_edge = (
        tuple(name for name in NAMES if name in names) for names in (low_edges, high_edges)
    )
    return Certainty(low, high, low_at_edge, high_at_edge, reasons, factors)


def _flat(name: str, bootstrap_intervals: Intervals, profile_intervals: Profiles) -> bool:
    """Whether the profile's interval is much wider, for A and B on a logarithmic axis. False for
    losses that the law fits exactly: the resamples' intervals then have no width."""
    if profile_intervals.noise <= LEAST_NOISE:
        return False
    widths = []
    for intervals in (bootstrap_intervals, profile_intervals):
        low, high = intervals.low[name], intervals.high[name]
        if name in ("A", "B"):
            low, high = math.log(low), math.log(high)
        widths.append(high - low)
    return widths[1] > _WIDER * widths[0]


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
