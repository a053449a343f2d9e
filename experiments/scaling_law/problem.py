"""The objective of fitting the law of the worth of one recurrence, and its gradient.

problem = Problem.of(table, weights)
value, gradient = problem.value(problem.theta(law))
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np

from .table import Floats, ScalingTable

NAMES = ("E", "A", "B", "alpha", "beta", "phi")
DELTA = 1e-3  # of the Huber loss on log L (Hoffmann et al., arXiv 2203.15556, approach 3)


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

    def loss(self, table: ScalingTable) -> Floats:
        """The law's losses for the rows of a table, [rows]."""
        effective = table.N_once + table.r**self.phi * table.N_rec
        return self.E + self.A * effective**-self.alpha + self.B * table.D**-self.beta


@dataclass(frozen=True)
class Problem:
    """The objective over theta = (log E, log A', log B', alpha, beta, phi), where A' and B' are the
    terms at the table's middle sizes: A and B themselves change by powers of ten with alpha and
    beta. All arrays are [rows]; sizes are logarithms."""

    once: Floats
    rec: Floats
    loops: Floats
    data: Floats
    target: Floats
    weights: Floats
    middle: tuple[float, float]

    @staticmethod
    def of(
        table: ScalingTable, weights: Floats, middle: tuple[float, float] | None = None
    ) -> Problem:
        """The problem of a table whose rows count `weights` [rows] times. `middle`, logarithms of N
        and D, is the table's by default; at 0 the terms are A and B themselves."""
        if middle is None:
            middle = float(np.log(table.parameters).mean()), float(np.log(table.D).mean())
        with np.errstate(divide="ignore"):  # log 0 if nothing runs once
            once = np.log(table.N_once) - middle[0]
        rec, data = np.log(table.N_rec) - middle[0], np.log(table.D) - middle[1]
        target = np.log(table.loss)
        return Problem(once, rec, np.log(table.r), data, target, weights, middle)

    def effective(self, phi: Floats) -> tuple[Floats, Floats]:
        """log N_eff and the looped parameters' share of it, [..., rows], for phi [..., 1]."""
        rec = self.rec + phi * self.loops
        size = np.logaddexp(self.once, rec)
        return size, np.exp(rec - size)

    def slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """The residuals of log L over delta, [..., rows], and their derivatives, [..., rows, 6],
        for theta [..., 6]."""
        e, a, b, alpha, beta, phi = np.moveaxis(theta[..., None], -2, 0)
        size, share = self.effective(phi)
        n, d = a - alpha * size, b - beta * self.data
        log_loss = np.logaddexp(np.logaddexp(e, n), d)
        de, dn, dd = (np.exp(term - log_loss) / DELTA for term in (e, n, d))
        derivatives = (de, dn, dd, -dn * size, -dd * self.data, -dn * alpha * share * self.loops)
        return (log_loss - self.target) / DELTA, np.stack(derivatives, axis=-1)

    def value(self, theta: Floats) -> tuple[Floats, Floats]:
        """The Huber loss over delta², summed over the rows, [...], and its gradient [..., 6], for
        theta [..., 6]. In units of delta², because the optimiser's tolerances are absolute."""
        residual, slopes = self.slopes(theta)
        psi = np.clip(residual, -1, 1)
        scores = self.weights * psi
        return (scores * (residual - psi / 2)).sum(-1), (scores[..., None] * slopes).sum(-2)

    def law(self, theta: Floats) -> Law:
        """The law with these parameters."""
        e, a, b, alpha, beta, phi = (float(each) for each in theta)
        A, B = math.exp(a + alpha * self.middle[0]), math.exp(b + beta * self.middle[1])
        return Law(math.exp(e), A, B, alpha, beta, phi)

    def theta(self, law: Law) -> Floats:
        """The parameters of a law, [6]."""
        E, A, B, alpha, beta, phi = astuple(law)
        e = math.log(E) if E > 0 else -math.inf
        a, b = math.log(A) - alpha * self.middle[0], math.log(B) - beta * self.middle[1]
        return np.array([e, a, b, alpha, beta, phi])
