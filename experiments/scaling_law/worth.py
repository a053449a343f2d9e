"""What a fitted law says of looped models of a size, and for a budget of training, as tables.

equivalents(result, 410e6), best_sizes(result, 1e19)

How a model's parameters divide into those that run once and those that run r times is taken from
the law's own rows: their mean share for each r. A training takes 6 FLOPs for each parameter, run
and token, times what attention and the head add in the rows of this r, if they have a budget.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from looplab.evaluation.tables import Part, Table

from .law import Fitted


class Design(NamedTuple):
    """Models of one r: `share` of the parameters are in the loop; `flops` of a parameter and
    token."""

    r: float
    share: float
    flops: float

    def runs(self, power: float) -> float:
        """N_once + r^power N_rec over N: 1 for power 0; what a parameter costs for power 1."""
        return 1 - self.share + self.r**power * self.share


def _designs(result: Fitted) -> Iterator[Design]:
    rows = result.table.assign(share=lambda of: of.N_rec / (of.N_once + of.N_rec), flops=6.0)
    rows["flops"] *= 1 + (rows.r - 1) * rows.share
    if "budget" in rows:
        rows["flops"] = rows.budget / (rows.D * (rows.N_once + rows.N_rec))
    for r, of_r in rows.groupby("r"):
        yield Design(float(r), of_r.share.mean(), np.exp(np.log(of_r.flops).mean()))


def equivalents(result: Fitted, size: float) -> list[Part]:
    """For each r, the model without a loop that a model of `size` parameters is worth, with the
    ends that phi's interval gives, and the one that costs as much in training and inference."""
    phi = result.phi()
    rows = []
    for design in _designs(result):
        ends = [phi[end] for end in ("low", "high")]
        worth = [_number(size * design.runs(each)) if each is not None else "edge" for each in ends]
        rows.append([
            f"{design.r:g}",
            _number(size * design.runs(result.fit.law.phi)),
            "" if design.r == 1 else f"{worth[0]} to {worth[1]}",
            _number(size * design.runs(1.0)),
        ])  # fmt: skip
    title = f"\na model of {_number(size)} parameters, beside models without a loop"
    return [title, Table(["r", "worth one of", "5 % to 95 %", "costs as much as one of"], rows)]


def best_sizes(result: Fitted, budget: float) -> list[Part]:
    """For each r, the number of parameters and of data with the least loss of the law for `budget`
    FLOPs of training, and the loss; the best r."""
    law, rows, losses = result.fit.law, [], {}
    for design in _designs(result):
        # The slopes of both terms are equal there.
        size_term = law.alpha * law.A * design.runs(law.phi) ** -law.alpha
        data_term = law.beta * law.B * (design.flops / budget) ** law.beta
        size = (size_term / data_term) ** (1 / (law.alpha + law.beta))
        data = budget / (design.flops * size)
        loss = law.E + law.A * (design.runs(law.phi) * size) ** -law.alpha + law.B * data**-law.beta
        losses[design.r] = loss
        rows.append([f"{design.r:g}", _number(size), _number(data), f"{loss:.4f}"])
    best = min(losses, key=lambda r: losses[r])
    return [
        f"\n{budget:.3g} FLOPs of training: r = {best:g} has the least loss",
        Table(["r", "parameters", "data", "loss"], rows),
    ]


def _number(value: float) -> str:
    """A count with three digits: '410 M'."""
    for unit, name in ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"
