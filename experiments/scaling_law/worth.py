"""What a fitted law says of looped models of a size, and for a budget of training, as tables.

equivalents(result, 410e6), best_sizes(result, 1e19)

How a model's parameters divide into those that run once and those that run r times is taken from
the law's own rows: their mean share for each r. A training takes 6 FLOPs for each parameter, run
and token, times what attention and the head add in the rows of this r, if they have a budget.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from pandas import DataFrame

from looplab.evaluation.bootstrap import Floats
from looplab.show.tables import Part, Table

from .law import Fitted, Law


class Design(NamedTuple):
    """Models of one r: `share` of the parameters are in the loop; `flops` of a parameter and
    token."""

    r: float
    share: float
    flops: float

    def runs(self, power: float) -> float:
        """N_once + r^power N_rec over N: 1 for power 0; what a parameter costs for power 1."""
        return 1 - self.share + self.r**power * self.share

    def loss(self, law: Law, sizes: Floats, budget: float) -> Floats:
        """The law's losses of models of these sizes for `budget` FLOPs of training."""
        effective = self.runs(law.phi) * sizes
        data = budget / (self.flops * sizes)
        return law.E + law.A * effective**-law.alpha + law.B * data**-law.beta

    def best(self, law: Law, budget: float) -> tuple[float, float, float]:
        """The size, the data and the loss of the best model for `budget` FLOPs of training."""
        # The slopes of both terms are equal there.
        size_term = law.alpha * law.A * self.runs(law.phi) ** -law.alpha
        data_term = law.beta * law.B * (self.flops / budget) ** law.beta
        size = (size_term / data_term) ** (1 / (law.alpha + law.beta))
        return size, budget / (self.flops * size), float(self.loss(law, size, budget))


def rows_of(result: Fitted) -> DataFrame:
    """The law's rows with N, the share of it in the loop, and the budget of training."""
    rows = result.table.assign(N=result.table.N_once + result.table.N_rec)
    rows["share"] = rows.N_rec / rows.N
    if "budget" not in rows:
        rows["budget"] = 6 * (rows.N_once + rows.r * rows.N_rec) * rows.D
    return rows


def designs(result: Fitted) -> Iterator[Design]:
    """The mean design of the law's rows, for each r."""
    for r, rows in rows_of(result).groupby("r"):
        # The geometric mean over models of one r.
        flops = np.exp(np.log(rows.budget / (rows.D * rows.N)).mean())
        yield Design(float(r), float(rows.share.mean()), float(flops))


def equivalents(result: Fitted, size: float) -> list[Part]:
    """For each r, the model without a loop that a model of `size` parameters is worth, with the
    ends that phi's interval gives, and the one that costs as much in training and inference."""
    phi = result.phi()
    rows = []
    for design in designs(result):
        ends = []
        for power in (phi["low"], phi["high"]):
            ends.append("edge" if power is None else number_text(size * design.runs(power)))
        worth = number_text(size * design.runs(result.fit.law.phi))
        interval = "" if design.r == 1 else " to ".join(ends)
        rows.append([f"{design.r:g}", worth, interval, number_text(size * design.runs(1.0))])
    title = f"\na model of {number_text(size)} parameters, beside models without a loop"
    return [title, Table(["r", "worth one of", "5 % to 95 %", "costs as much as one of"], rows)]


def best_sizes(result: Fitted, budget: float) -> list[Part]:
    """For each r, the number of parameters and of data with the least loss of the law for `budget`
    FLOPs of training, and the loss; the best r."""
    law = result.fit.law
    rows = []
    losses = {}
    for design in designs(result):
        size, data, loss = design.best(law, budget)
        losses[design.r] = loss
        rows.append([f"{design.r:g}", number_text(size), number_text(data), f"{loss:.4f}"])
    best = min(losses, key=lambda r: losses[r])
    return [
        f"\n{budget:.3g} FLOPs of training: r = {best:g} has the least loss",
        Table(["r", "parameters", "data", "loss"], rows),
    ]


def number_text(value: float) -> str:
    """A count with three digits: '410 M'."""
    for unit, name in ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"
