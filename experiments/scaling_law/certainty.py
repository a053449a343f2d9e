"""What is known of each parameter of a fitted law, and what is not: the counts of the table, the
profiles and the resamples together.

known = certainty(table, fit, intervals(…), profiles(table, fit))
known.low["phi"], known.high["phi"], known.not_determined
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .bootstrap import Intervals
from .counts import counted, untold
from .fit import Fit
from .problem import NAMES
from .profile import LEAST_NOISE, Profiles
from .table import ScalingTable

_WIDER = 2.0  # a profile's interval than the resamples': these were then fitted badly
_NO_E = 0.05  # of the lowest loss: an E that is at most this is known, as next to nothing
_BADLY = 2.0  # the ends of an interval apart, as a factor


@dataclass(frozen=True)
class Certainty:
    """The outer ends of profile and resamples, for each parameter (one that is held ends where it
    is); `low_at_edge` and `high_at_edge`, those whose interval is open, because the search ends
    before it; `not_determined`, for each parameter that is not, why; `factors`, for each other one
    but phi whose ends are far apart, by which factor."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    low_at_edge: tuple[str, ...]
    high_at_edge: tuple[str, ...]
    not_determined: Mapping[str, str]
    factors: Mapping[str, float]


def certainty(table: ScalingTable, fit: Fit, resampled: Intervals, profiled: Profiles) -> Certainty:
    """An interval is never narrower than the profile's. A parameter is not determined where the
    table has too few values to tell it, where its profile is open, where E may as well be 0, and
    where the profile's interval is more than twice as wide as the resamples': they then stayed near
    the fit that they start from, and not because the losses hold them there."""
    low = {**resampled.low} | {k: min(v, resampled.low[k]) for k, v in profiled.low.items()}
    high = {**resampled.high} | {k: max(v, resampled.high[k]) for k, v in profiled.high.items()}
    edges = {
        end: tuple(n for n in NAMES if n in getattr(resampled, end) + getattr(profiled, end))
        for end in ("low_at_edge", "high_at_edge")
    }
    few = untold(table, fit.held)
    reasons: dict[str, str] = {}
    for name in profiled.low:
        if name in few:
            reasons[name] = f"{counted(table)} cannot tell, however exact the losses"
        elif name in edges["low_at_edge"] + edges["high_at_edge"]:
            reasons[name] = "where the search for it ends, the losses are fitted as well"
        elif name == "E" and low[name] == 0 and high[name] > _NO_E * table.loss.min():
            reasons[name] = f"all from 0 to {high[name]:.3g} fit the losses as well"
        elif _flat(name, resampled, profiled):
            reasons[name] = "the losses leave it freer than resampling them shows"
    for term, exponent in (("A", "alpha"), ("B", "beta")):
        if exponent in reasons:
            reasons.setdefault(term, reasons[exponent])
    reasons = {name: reasons[name] for name in NAMES if name in reasons}
    factors = {
        name: high[name] / low[name]
        for name in profiled.low
        if name not in reasons and name != "phi" and high[name] > _BADLY * low[name] > 0
    }
    return Certainty(low, high, **edges, not_determined=reasons, factors=factors)


def _flat(name: str, resampled: Intervals, profiled: Profiles) -> bool:
    """Whether the profile's interval is much wider, of A and B on a logarithmic axis. Losses that
    the law meets exactly tell nothing of it: the resamples' intervals are then of no width."""
    if profiled.noise <= LEAST_NOISE:
        return False
    widths = []
    for found in (resampled, profiled):
        low, high = found.low[name], found.high[name]
        if name in ("A", "B"):
            low, high = math.log(low), math.log(high)
        widths.append(high - low)
    return widths[1] > _WIDER * widths[0]
