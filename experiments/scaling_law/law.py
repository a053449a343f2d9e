"""The law of the worth of one recurrence: its fit to a table of losses, and the certainty of its
parameters by fits to rows resampled in clusters.

A table has a row for each trained model. Its columns are N_once (parameters that run once), N_rec
(those that run r times), r, D (training data in tokens or prompts), loss, and any others.

result = fitted(table, {"E": 0.25}, ["r", "budget"], resamples=200, seed=0)
result.phi(), result.fit.law, result.not_determined
difference(table, changed, {}, ["r", "budget"], resamples=200, seed=0).delta
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from pandas import DataFrame, Series, concat
from scipy.optimize import least_squares

from looplab.conf.mistakes import RunError, nearest
from looplab.evaluation.bootstrap import Floats

FORMULA = "L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta"
COLUMNS = ("N_once", "N_rec", "r", "D", "loss")
NAMES = ("E", "A", "B", "alpha", "beta", "phi")
DELTA = 1e-3  # of the Huber loss on log L (Hoffmann et al., arXiv 2203.15556, approach 3)
# The ranges of exponents, and those of alpha and beta that the search starts from.
RANGES = {"alpha": (0.005, 6.0), "beta": (0.005, 6.0), "phi": (-3.0, 4.0)}
_STARTS = (0.06, 0.3, 1.5)
_NO_E = 0.05  # of the lowest loss: an E of at most this counts as determined, close to 0
_NOTHING = 1e-9  # of the largest singular value, and of a direction: rounding


@dataclass(frozen=True)
class Law:
    """L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta (arXiv 2604.21106): at phi = 0 a
    recurrence adds nothing to a shared parameter, at phi = 1 it is worth as much as new ones."""

    E: float
    A: float
    B: float
    alpha: float
    beta: float
    phi: float

    def loss(self, table: DataFrame) -> Floats:
        """The law's losses for the rows of a table, [rows]."""
        once, rec, r, data, _ = columns_of(table)
        size = once + r**self.phi * rec
        return self.E + self.A * size**-self.alpha + self.B * data**-self.beta


def columns_of(table: DataFrame) -> list[Floats]:
    """N_once, N_rec, r, D and loss, each [rows]."""
    return [table[name].to_numpy(np.float64) for name in COLUMNS]


class Problem:
    """The residuals over theta = (log E, log A', log B', alpha, beta, phi), where A' and B' are the
    terms at the table's middle sizes: A and B themselves change by powers of ten with alpha and
    beta. All arrays are [rows]; sizes are logarithms."""

    def __init__(self, table: DataFrame) -> None:
        once, rec, r, data, loss = columns_of(table)
        self.middle = float(np.log(once + rec).mean()), float(np.log(data).mean())
        with np.errstate(divide="ignore"):  # log 0 if nothing runs once
            self.once = np.log(once) - self.middle[0]
            self.rec = np.log(rec) - self.middle[0]
        self.loops = np.log(r)
        self.data = np.log(data) - self.middle[1]
        self.target = np.log(loss)

    def slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """The residuals of log L over delta, [..., rows], and their derivatives, [..., rows, 6],
        for theta [..., 6]."""
        e, a, b, alpha, beta, phi = np.moveaxis(theta[..., None], -2, 0)
        rec = self.rec + phi * self.loops
        size = np.logaddexp(self.once, rec)  # log N_eff, of which looped parameters have a share
        share = np.exp(rec - size)
        n, d = a - alpha * size, b - beta * self.data
        log_loss = np.logaddexp(np.logaddexp(e, n), d)
        # By the logarithm of a term, log L changes by the share of the term in L.
        de, dn, dd = (np.exp(term - log_loss) / DELTA for term in (e, n, d))
        derivatives = (de, dn, dd, -dn * size, -dd * self.data, -dn * alpha * share * self.loops)
        return (log_loss - self.target) / DELTA, np.stack(derivatives, axis=-1)

    def law(self, theta: Floats) -> Law:
        """The law with these parameters."""
        e, a, b, alpha, beta, phi = map(float, theta)
        A = math.exp(a + alpha * self.middle[0])
        B = math.exp(b + beta * self.middle[1])
        return Law(math.exp(e), A, B, alpha, beta, phi)

    def theta(self, law: Law) -> Floats:
        """The parameters of a law, [6]."""
        E, A, B, alpha, beta, phi = astuple(law)
        e = math.log(E) if E > 0 else -math.inf
        a = math.log(A) - alpha * self.middle[0]
        b = math.log(B) - beta * self.middle[1]
        return np.array([e, a, b, alpha, beta, phi])


def _starts(problem: Problem, fixed: Mapping[str, float]) -> list[Floats]:
    """The starts of the search, [6] each: several exponents, as the loss has more than one valley,
    with half of the least loss in E and a quarter in each other term."""
    least = float(problem.target.min())
    E = fixed.get("E", math.exp(least) / 2)
    # In logarithms, as theta has them.
    quarter = least - math.log(4)
    terms = [math.log(E) if E else -math.inf, quarter, quarter]
    starts = []
    for alpha, beta in product(_STARTS, repeat=2):
        exponents = {"alpha": alpha, "beta": beta, "phi": 0.5, **fixed}
        starts.append(np.array([*terms, *(exponents[name] for name in RANGES)]))
    return starts


def _descend(problem: Problem, start: Floats, fixed: Collection[str]) -> tuple[float, Floats]:
    """The least Huber loss over delta² from this start, summed over the rows, and its theta, of
    which the `fixed` entries do not change. The others stay in their ranges: no term is above the
    losses by more than a few powers of e, and one below e^-12 of them is rounding."""
    least = float(problem.target.min()) - 12
    most = float(problem.target.max())
    ranges = np.array([(least, most), (least, most + 4), (least, most + 4), *RANGES.values()])
    free = [index for index, name in enumerate(NAMES) if name not in fixed]

    def at(values: Floats) -> Floats:
        theta = start.copy()
        theta[free] = values
        return theta

    low, high = ranges[free].T
    result = least_squares(
        lambda values: problem.slopes(at(values))[0],
        np.clip(start[free], low, high),
        lambda values: problem.slopes(at(values))[1][:, free],
        bounds=(low, high),
        loss="huber",
        x_scale="jac",
        ftol=1e-12,
        xtol=1e-12,
        gtol=None,
        max_nfev=3000,
    )
    return float(result.cost), at(result.x)


@dataclass(frozen=True)
class Fit:
    """A fitted law: `huber`, the mean Huber loss of log L's residuals; `r2`, the share of
    the variance of L it explains."""

    law: Law
    huber: float
    r2: float


def fit_law(table: DataFrame, fixed: Mapping[str, float], start: Law | None = None) -> Fit:
    """The law with the least Huber loss on log L over the rows.

    `fixed` are values for some of E, alpha, beta and phi; E may be 0. The search starts from
    several exponents, or from `start` alone. Raises RunError for a table that cannot
    determine the free parameters, and for an E that is not below every loss.
    """
    loss = columns_of(table)[-1]
    if len(table) and fixed.get("E", 0) >= loss.min():
        lowest = f"{loss.min():g} in row {loss.argmin() + 1}"
        raise RunError(f"E must be below every loss, got {fixed['E']:g} beside {lowest}")
    counted = table[~table.index.duplicated()]  # a resample has rows several times
    free = len(NAMES) - len(fixed)
    if len(counted) < free:
        raise RunError(f"the table has {len(counted)} rows, too few for {free} free parameters")
    if counted.loss.nunique() < 2:
        raise RunError("the table has one value of loss only, which tells nothing")
    for name, column in (("phi", "r"), ("alpha", "N"), ("beta", "D")):
        values = counted.N_once + counted.N_rec if column == "N" else counted[column]
        if name not in fixed and values.nunique() < 2:
            raise RunError(f"the table has one value of {column} only, which cannot tell {name}")
    problem = Problem(table)
    starts = [problem.theta(replace(start, **fixed))] if start else _starts(problem, fixed)
    ends = [_descend(problem, theta, fixed) for theta in starts]
    value, theta = min(ends, key=lambda end: end[0])
    law = problem.law(theta)
    unexplained = np.square(loss - law.loss(table)).sum()
    r2 = float(1 - unexplained / np.square(loss - loss.mean()).sum())
    return Fit(law, value * DELTA**2 / len(table), r2)


@dataclass(frozen=True)
class Fitted:
    """The law with all parameters free but the `fixed`; the ends of their 90 % intervals, None
    where one is open, from `resamples` that could be fitted of `clusters` clusters; and the reason
    for each parameter that is not determined."""

    table: DataFrame
    fixed: Mapping[str, float]
    fit: Fit
    clusters: int
    resamples: int
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    not_determined: Mapping[str, str]

    def phi(self) -> dict[str, float | None]:
        """The law's phi and the ends of its interval."""
        return {"value": self.fit.law.phi, "low": self.low["phi"], "high": self.high["phi"]}


def fitted(
    table: DataFrame, fixed: Mapping[str, float], columns: Sequence[str], resamples: int, seed: int
) -> Fitted:
    """The law of a table and the certainty of its parameters. Rows that agree in all `columns` are
    a cluster, without columns each row is. A resample has the rows as often as their cluster was
    drawn; its fit starts from the table's law. One that cannot determine the free parameters
    (e.g. with a single r) is left out.

    Raises RunError for a table that cannot determine the law, an invalid number, a column that
    there is not, a single cluster, and if no more than half of the resamples can be fitted.
    """
    (resampled,) = _resampled([table], fixed, columns, resamples, seed)
    return resampled.fitted(fixed)


@dataclass(frozen=True)
class Difference:
    """The laws without and with one change, fitted to the same `shared` rows of r = 1; `delta`, the
    phi with it less that without; and the ends of its 90 % interval, None where one is open."""

    baseline: Fitted
    changed: Fitted
    shared: int
    delta: float
    low: float | None
    high: float | None

    def settled(self) -> bool:
        """Says whether the interval is closed and does not hold 0."""
        low, high = self.low, self.high
        return low is not None and high is not None and (low > 0 or high < 0)

    def runs_needed(self) -> int | None:
        """How many runs with the change would settle the sign of delta, if it and the scatter of
        the losses stayed what they are; None where the interval is open, or for the sign that is
        settled."""
        if self.low is None or self.high is None or self.settled():
            return None
        half = max(self.high - self.delta, self.delta - self.low)
        rows = len(self.changed.table) - self.shared
        return math.ceil(rows * (half / abs(self.delta)) ** 2) if self.delta else None


def difference(
    table: DataFrame,
    changed: DataFrame,
    fixed: Mapping[str, float],
    columns: Sequence[str],
    resamples: int,
    seed: int,
) -> Difference:
    """What one change does to phi (arXiv 2604.21106, Section 5): the laws of two tables, and the
    difference of their phi in resamples of both at once, in which rows that agree in all `columns`
    go together, those of both tables too. A model that runs its block once has nothing to change:
    where `changed` has no row of r = 1 it gets the `table`'s.

    Raises RunError as `fitted` does, for either table."""
    changed = changed.set_axis(range(len(table), len(table) + len(changed)))
    once = table[table.r == 1] if not (changed.r == 1).any() else table[:0]
    tables = [table, concat([changed, once])]
    without, with_change = _resampled(tables, fixed, columns, resamples, seed)
    baseline = without.fitted(fixed)
    law = with_change.fitted(fixed)
    delta = law.fit.law.phi - baseline.fit.law.phi
    low = high = None
    if None not in baseline.phi().values() and None not in law.phi().values():
        phi = NAMES.index("phi")
        deltas = with_change.samples[:, phi] - without.samples[:, phi]
        low, high = np.percentile(deltas, [5, 95]).tolist()
    return Difference(baseline, law, len(once), delta, low, high)


@dataclass(frozen=True)
class _Resampled:
    """A table, its law, the number of its clusters, and the parameters of the laws of those
    resamples that can be fitted, [resamples, parameters]."""

    table: DataFrame
    fit: Fit
    clusters: int
    samples: Floats

    def fitted(self, fixed: Mapping[str, float]) -> Fitted:
        """The law with the intervals of its parameters, from those of resamples."""
        low = ends_of(self.samples, fixed, "lower")
        high = ends_of(self.samples, fixed, "higher")
        unknown = _not_determined(self.table, fixed, low, high, self.fit.law)
        resamples = len(self.samples)
        return Fitted(self.table, fixed, self.fit, self.clusters, resamples, low, high, unknown)


def _resampled(
    tables: Sequence[DataFrame],
    fixed: Mapping[str, float],
    columns: Sequence[str],
    resamples: int,
    seed: int,
) -> list[_Resampled]:
    """Each table with its law, and with those of the resamples that can be fitted in all tables.
    Rows of one index are one row in several tables."""
    for table in tables:
        _check(table, columns)
    fits = [fit_law(table, fixed) for table in tables]
    rows = concat(tables)
    rows = rows[~rows.index.duplicated()]
    clusters = Series(np.arange(len(rows)), rows.index)
    if columns:
        clusters = rows.groupby(list(columns), dropna=False).ngroup()
    count = int(clusters.max()) + 1
    if count < 2:
        raise RunError("the table has one cluster only, of which there is nothing to resample")
    # How often each cluster is in a resample, [resamples, clusters].
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples)
    samples = []
    for times in drawn:
        with suppress(RunError):
            laws = []
            for table, fit in zip(tables, fits, strict=True):
                # A row comes as often as its cluster was drawn.
                again = np.repeat(table.index, times[clusters[table.index]])
                laws.append(astuple(fit_law(table.loc[again], fixed, fit.law).law))
            samples.append(laws)
    if 2 * len(samples) <= resamples:
        drawings = f"{len(samples)} of {resamples} resamples of the {count} clusters"
        raise RunError(f"only {drawings} can be fitted")
    by_table = np.array(samples).swapaxes(0, 1)  # [tables, resamples, parameters]
    return [
        _Resampled(table, fit, count, parameters)
        for table, fit, parameters in zip(tables, fits, by_table, strict=True)
    ]


def _check(table: DataFrame, columns: Sequence[str]) -> None:
    """Raises RunError for a column that there is not, and for an invalid number."""
    for name in columns:
        if name not in table:
            raise RunError(f"the table has no column {name}{nearest(name, table.columns)}")
    for name, values in zip(COLUMNS, columns_of(table), strict=True):
        bound = "above 0"
        valid = values > 0
        if name == "N_once":  # a model may have nothing outside its loop
            bound = "at least 0"
            valid = values >= 0
        valid &= np.isfinite(values)
        if not valid.all():
            row = int(valid.argmin())
            raise RunError(f"{name} must be {bound}, got {values[row]} in row {row + 1}")


def ends_of(
    samples: Floats, fixed: Collection[str], side: Literal["lower", "higher"]
) -> dict[str, float | None]:
    """The 5th (lower) or 95th percentile of each parameter over samples of all; None for an
    exponent where it, or the next sample outwards, ended at the edge of the search."""
    percent = 5 if side == "lower" else 95
    ends: dict[str, float | None] = {}
    inner = np.percentile(samples, percent, axis=0).tolist()
    # An end between two samples: the one outwards may be at the edge of the search.
    outer = np.percentile(samples, percent, axis=0, method=side).tolist()
    for name, value, outwards in zip(NAMES, inner, outer, strict=True):
        searched = name in RANGES and name not in fixed
        open_end = searched and np.isclose(outwards, RANGES[name]).any()
        ends[name] = None if open_end else value
    return ends


def _not_determined(
    table: DataFrame,
    fixed: Collection[str],
    low: Mapping[str, Any],
    high: Mapping[str, Any],
    law: Law,
) -> dict[str, str]:
    """The reason for each parameter that is not determined: the table has too few values for it,
    its interval is open, no loss depends on it, or E may as well be 0."""
    unidentified = unidentifiable(table, fixed)
    reasons: dict[str, str] = {}
    problem = Problem(table)
    _, derivatives = problem.slopes(problem.theta(law))
    slopes = dict(zip(NAMES, np.abs(derivatives).max(0), strict=True))
    # Those that move no residual by more than delta over their whole range.
    flat = [name for name, ends in RANGES.items() if slopes[name] * np.ptp(ends) < 1]
    counts = f"{table.D.nunique()} of D and {table.r.nunique()} of r"
    for name in NAMES:
        if name in unidentified:
            sizes = (table.N_once + table.N_rec).nunique()
            reasons[name] = f"{sizes} values of N, {counts} cannot tell, however exact the losses"
        elif None in (low[name], high[name]) or (name in flat and name not in fixed):
            reasons[name] = "where the search for it ends, the losses are fitted as well"
        elif name == "E" and "E" not in fixed and low["E"] < _NO_E * table.loss.min() < high["E"]:
            reasons[name] = f"all from {low[name]:.2g} to {high[name]:.3g} fit the losses as well"
    for term, exponent in (("A", "alpha"), ("B", "beta")):
        if exponent in reasons:
            reasons.setdefault(term, reasons[exponent])
    return {name: reasons[name] for name in NAMES if name in reasons}


def unidentifiable(table: DataFrame, fixed: Collection[str]) -> tuple[str, ...]:
    """The free parameters (not `fixed`) that can change, together with others, without changing
    any loss of the table: two values of D give one difference, too few for E, B and beta. A
    direction in which the derivatives of all losses vanish at generic exponents is one in which
    they vanish everywhere.
    """
    problem = Problem(table)
    alpha = _power(problem.once, problem.rec)
    theta = np.array([0.0, 0.0, 0.0, alpha, _power(problem.data), 0.37])
    free = [index for index, name in enumerate(NAMES) if name not in fixed]
    slopes = problem.slopes(theta)[1][:, free]
    slopes = slopes / np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
    sizes, axes = np.linalg.svd(slopes)[1:]
    # Along the other axes no loss changes: their singular values are rounding.
    rank = int(np.count_nonzero(sizes > _NOTHING * sizes[0]))
    in_null_space = np.abs(axes[rank:]).max(axis=0, initial=0) > 1e-6
    names = {NAMES[index] for index, is_free in zip(free, in_null_space, strict=True) if is_free}
    # A and B of the problem are the terms at the middle sizes: the law's depend on the exponents.
    names |= {term for term, exponent in (("A", "alpha"), ("B", "beta")) if exponent in names}
    return tuple(name for name in NAMES if name in names)


def _power(*logarithms: Floats) -> float:
    """An exponent at which a term changes by about e over the spread of its sizes."""
    spread = float(np.logaddexp.reduce(logarithms).std())
    return 0.83 / spread if spread > 0 else 0.83
