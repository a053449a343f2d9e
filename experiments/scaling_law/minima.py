"""The least loss of each budget of training and r: the vertex of a parabola in log N through the
losses (arXiv 2604.21106), beside the least one measured.

minima(table)                   # budget, r, flops, measured, N, loss
losses_at_equal_flops(table, changed)
"""

import math

import numpy as np
from pandas import DataFrame, Series

from looplab.show.tables import Part, Table

from .worth import number_text

_STEP = 0.25  # of log10: budgets nearer than half of it are one


def rounded_budget(flops: float) -> float:
    """The logarithm of FLOPs to the base of 10, in steps of a quarter."""
    return round(math.log10(flops) / _STEP) * _STEP


def minima(table: DataFrame) -> DataFrame:
    """For each `budget`, rounded, and `r` of a table of the law: the mean `flops`, the least loss
    `measured`, over seeds the mean; and the `loss` and size `N` of the vertex,
    nan where there is none."""
    rows = []
    sized = table.assign(N=table.N_once + table.N_rec)
    for (budget, r), cell in sized.groupby([table.budget.map(rounded_budget), "r"]):
        # Of several seeds the luckiest is no least loss. Their folders' names differ in it alone.
        setting = [cell.N]
        if "run" in cell:
            setting.append(cell.run.astype(str).str.replace(r"-seed\d+", "", regex=True))
        measured = cell.loss.groupby(setting).mean().min()
        row = {"budget": budget, "r": r, "flops": cell.budget.mean(), "measured": measured}
        size, loss = vertex(cell.N, cell.loss)
        rows.append(row | {"N": size, "loss": loss})
    return DataFrame(rows)


def vertex(sizes: Series, losses: Series) -> tuple[float, float]:
    """The size and loss at the vertex of the parabola in log N, by least squares; nan for fewer
    than three sizes, and for a parabola that has no least loss within them."""
    logs = np.log(sizes.to_numpy(np.float64))
    if len(np.unique(logs)) < 3:
        return math.nan, math.nan
    middle = logs.mean()
    curvature, slope, level = np.polyfit(logs - middle, losses, 2)
    place = middle - slope / (2 * curvature)
    if curvature <= 0 or not logs.min() <= place <= logs.max():
        return math.nan, math.nan
    return math.exp(place), float(level - slope**2 / (4 * curvature))


def vertices(table: DataFrame) -> list[Part]:
    """The vertices as a table; nothing without any."""
    cells = minima(table).dropna()
    if cells.empty:
        return []
    pairs = zip(cells.loss, cells.N, strict=True)
    texts = [f"{loss:.4f} at {number_text(size)}" for loss, size in pairs]
    return ["\nleast losses by parabolas in log N, at N parameters", _by_budget(cells, texts)]


def losses_at_equal_flops(table: DataFrame, changed: DataFrame) -> list[Part]:
    """The least losses measured with a change over those without, as a table of the budgets and
    numbers of loops, above one, that both have; nothing without any."""
    keys = ["budget", "r"]
    cells = minima(table).merge(minima(changed), on=keys, suffixes=("", "_changed"))
    cells = cells[cells.r > 1]
    if cells.empty:
        return []
    pairs = zip(cells.measured_changed, cells.measured, strict=True)
    texts = [f"{less / more:.4f} ({less:.4f} / {more:.4f})" for less, more in pairs]
    return ["\nleast loss at equal FLOPs, with the change over without", _by_budget(cells, texts)]


def _by_budget(cells: DataFrame, texts: list[str]) -> Table:
    """Texts on cells, a row a budget and a column a number of loops."""
    wide = cells.assign(text=texts).pivot(index="budget", columns="r", values="text").fillna("")
    flops = cells.groupby("budget").flops.mean().map("{:.3g}".format)
    rows = wide.assign(flops=flops)[["flops", *wide]].to_numpy().tolist()
    return Table(["FLOPs", *(f"r = {r:g}" for r in wide)], rows)
