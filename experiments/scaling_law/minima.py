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
    `measured`, and the `loss` and size `N` of the vertex, nan where there is none."""
    rows = []
    sized = table.assign(N=table.N_once + table.N_rec)
    for (budget, r), cell in sized.groupby([table.budget.map(rounded_budget), "r"]):
        row = {"budget": budget, "r": r, "flops": cell.budget.mean(), "measured": cell.loss.min()}
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
    """The vertices as a table, a row a budget and a column a number of loops; nothing without
    any."""
    found = minima(table).dropna()
    if found.empty:
        return []
    loops = sorted(set(found.r))
    rows = []
    for _, cells in found.groupby("budget"):
        by_r = {cell.r: f"{cell.loss:.4f} at {number_text(cell.N)}" for cell in cells.itertuples()}
        rows.append([f"{cells.flops.mean():.3g}", *(by_r.get(r, "") for r in loops)])
    head = ["FLOPs", *(f"r = {r:g}" for r in loops)]
    return ["\nleast losses by parabolas in log N, at N parameters", Table(head, rows)]


def losses_at_equal_flops(table: DataFrame, changed: DataFrame) -> list[Part]:
    """The least losses measured without and with a change, at the budgets and numbers of loops,
    above one, that both have; nothing without any."""
    looped = minima(table[table.r > 1]), minima(changed[changed.r > 1])
    if looped[0].empty or looped[1].empty:
        return []
    both = looped[0].merge(looped[1], on=["budget", "r"], suffixes=("", "_changed"))
    if both.empty:
        return []
    rows = []
    for cell in both.itertuples():
        ratio = cell.measured_changed / cell.measured
        losses = [f"{loss:.4f}" for loss in (cell.measured, cell.measured_changed)]
        rows.append([f"{cell.flops:.3g}", f"{cell.r:g}", *losses, f"{ratio:.4f}"])
    head = ["FLOPs", "r", "without", "with the change", "ratio"]
    return ["\nleast losses at equal FLOPs", Table(head, rows)]
