"""What a fitted law says of looped models of a size, and for a budget of training.

It is written as tables, and as a page on which a reader chooses the budget and phi.

equivalents(result, 410e6), best_sizes(result, 1e19), page(result)

How a model's parameters divide into those that run once and those that run r times is taken from
the law's own rows: their mean share for each r. A training takes 6 FLOPs for each parameter, run
and token, times what attention and the head add in the rows of this r, if they have a budget.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pandas import DataFrame

from looplab.show.drawing import curve_styles
from looplab.show.panel import Curve
from looplab.show.tables import Part, Table

from .law import FORMULA, Fitted, fit_law


class Design(NamedTuple):
    """Models of one r: `share` of the parameters are in the loop; `flops` of a parameter and
    token."""

    r: float
    share: float
    flops: float

    def runs(self, power: float) -> float:
        """N_once + r^power N_rec over N: 1 for power 0; what a parameter costs for power 1."""
        return 1 - self.share + self.r**power * self.share


def _rows(result: Fitted) -> DataFrame:
    """The law's rows with N, the share of it in the loop, and the budget of training."""
    rows = result.table.assign(N=result.table.N_once + result.table.N_rec)
    rows["share"] = rows.N_rec / rows.N
    if "budget" not in rows:
        rows["budget"] = 6 * (rows.N_once + rows.r * rows.N_rec) * rows.D
    return rows


def designs(result: Fitted) -> Iterator[Design]:
    """The mean design of the law's rows, for each r."""
    for r, rows in _rows(result).groupby("r"):
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
            ends.append("edge" if power is None else _number(size * design.runs(power)))
        worth = _number(size * design.runs(result.fit.law.phi))
        interval = "" if design.r == 1 else " to ".join(ends)
        rows.append([f"{design.r:g}", worth, interval, _number(size * design.runs(1.0))])
    title = f"\na model of {_number(size)} parameters, beside models without a loop"
    return [title, Table(["r", "worth one of", "5 % to 95 %", "costs as much as one of"], rows)]


def best_sizes(result: Fitted, budget: float) -> list[Part]:
    """For each r, the number of parameters and of data with the least loss of the law for `budget`
    FLOPs of training, and the loss; the best r."""
    law = result.fit.law
    rows = []
    losses = {}
    for design in designs(result):
        # The slopes of both terms are equal there.
        size_term = law.alpha * law.A * design.runs(law.phi) ** -law.alpha
        data_term = law.beta * law.B * (design.flops / budget) ** law.beta
        size = (size_term / data_term) ** (1 / (law.alpha + law.beta))
        data = budget / (design.flops * size)
        loss = law.E + law.A * (design.runs(law.phi) * size) ** -law.alpha
        loss += law.B * data**-law.beta
        losses[design.r] = loss
        rows.append([f"{design.r:g}", _number(size), _number(data), f"{loss:.4f}"])
    best = min(losses, key=lambda r: losses[r])
    return [
        f"\n{budget:.3g} FLOPs of training: r = {best:g} has the least loss",
        Table(["r", "parameters", "data", "loss"], rows),
    ]


def page(result: Fitted) -> str:
    """An HTML page that loads nothing from elsewhere, with the paper's two panels: losses by size
    at a budget, and the least loss by budget, for each r; budget and phi are chosen there. For
    another phi the law is fitted anew, or its other parameters are held."""
    fitted = result.fit.law
    laws = []
    for phi in np.linspace(0, 1, 21).round(2).tolist():
        laws.append(fit_law(result.table, {**result.fixed, "phi": phi}, fitted).law)
    laws.append(fitted)
    laws.sort(key=lambda law: law.phi)
    by_r = list(designs(result))
    loops = [design.r for design in by_r]
    curves = [Curve(label=f"{r:g}", kind="loops", name=f"{r:g}", mean=[], number=r) for r in loops]
    styles = zip(curves, curve_styles(curves), strict=True)
    colours = {curve.name: style["color"] for curve, style in styles}
    data = {
        "fitted": asdict(fitted),
        "laws": [asdict(law) for law in laws],
        "designs": [design._asdict() for design in by_r],
        "colours": colours,
        "rows": _rows(result)[["N", "r", "loss", "budget"]].to_dict("records"),
        "said": f"{FORMULA}, {len(result.table)} models, phi = {fitted.phi:.3g}",
    }
    text = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return text.replace("__DATA__", json.dumps(data))


def _number(value: float) -> str:
    """A count with three digits: '410 M'."""
    for unit, name in ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"
