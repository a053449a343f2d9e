"""A fitted law as text, as panels and as a file.

result = fitted(table, {"E": 0.25}, ["r", "budget"], resamples=200, seed=0)
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame, Series

from looplab.conf.command import as_word
from looplab.conf.schema import FigureSettings
from looplab.evaluation.kept import shown
from looplab.show.drawing import save_panels
from looplab.show.page.page import page_of
from looplab.show.panel import Curve, Panel
from looplab.show.tables import Part, Table
from looplab.training.run_folder.files import write_bytes

from .law import FORMULA, NAMES, Difference, Fitted, Law, fit_law
from .minima import rounded_budget
from .worth import designs, rows_of

_POINTS = 60  # of a line
_POWERS = 21  # values of phi
_DARKEST = 64.0  # number of loops, from which on curves get no darker


def write(
    result: Fitted,
    folder: Path,
    settings: Mapping[str, Any],
    figures: FigureSettings,
    parts: Sequence[Part],
    difference: Difference | None = None,
) -> None:
    """Write scaling_law.json, with the command's `settings` and the panels, figures/ and page.html
    into a folder, unless they are there; with the `parts` that are printed, and a `difference` of
    which the result is the baseline."""
    drawn = law_panels(result.table, result.fit.law)
    drawn += _by_budget(result, settings.get("budget"))
    drawn.append(_by_phi(result))
    words = [f"{key}={as_word(value)}" for key, value in settings.items()]
    content: dict[str, Any] = {
        "title": "What one recurrence is worth",
        "rows": result.table.to_dict("list"),
        "held": dict(result.fixed),
        "fit": asdict(result.fit),
        "intervals": {"low": dict(result.low), "high": dict(result.high)},
        "clusters": result.clusters,
        "resamples": result.resamples,
        "not_determined": dict(result.not_determined),
        "settings": dict(settings),
    }
    content["command"] = shlex.join(["python", "-m", "experiments.scaling_law", *words])
    if difference:
        content["difference"] = _plain(difference)
    content["parts"] = [
        asdict(part) if isinstance(part, Table) else part.strip() for part in parts if part
    ]
    content["panels"] = [panel.plain() for panel in drawn]
    content["figures"] = figures.plain()
    notes = []
    if result.not_determined:
        notes.append(f"not determined: {', '.join(result.not_determined)}")

    def make() -> list[Path]:
        page = folder / "page.html"
        write_bytes(page, page_of(path, "scaling_law", content).encode())
        return [*save_panels(folder / "figures", drawn, figures, remarks=notes), page]

    path = folder / "scaling_law.json"
    shown(path, "scaling_law", content, make)


def _plain(difference: Difference) -> dict[str, Any]:
    """A difference of phi as JSON: of the changed models the law and phi's interval."""
    changed = difference.changed
    return {
        "shared": difference.shared,
        "delta": difference.delta,
        "low": difference.low,
        "high": difference.high,
        "changed": {"fit": asdict(changed.fit), "phi": changed.phi()},
    }


def text_of_difference(difference: Difference) -> str:
    """The difference of phi with its interval, what it says of the change, and how many runs would
    tell where it says nothing."""
    interval = (difference.low, difference.high)
    ends = ["open" if end is None else f"{end:.3g}" for end in interval]
    value = f"phi with the change less phi without it: {difference.delta:.3g}"
    says = "not settled"
    needed = difference.runs_needed()
    if difference.settled():
        says = f"a recurrence is worth {'more' if difference.delta > 0 else 'less'} with it"
    elif needed:
        runs = len(difference.changed.table) - difference.shared
        says += f": about {needed:,} runs with the change would settle it, in place of {runs}"
    return f"{value} ({' to '.join(ends)}): {says}"


def law_panels(table: DataFrame, law: Law) -> list[Panel]:
    """For each r the measured losses by size with the law's, joined by lines; and what the law
    misses.

    A curve is the models of one r and budget, or of one r and D where no budget has several.
    """
    expected = law.loss(table)
    # In per cent, for small differences.
    missed = 100 * np.log(table.loss / expected)
    rows = table.assign(N=table.N_once + table.N_rec, law=expected, missed=missed).sort_values("N")
    by = "r"
    for column in ("D", "budget"):  # the budget, where several rows of one r have one
        if column in rows and rows.duplicated(["r", column]).any():
            by = column
    # Curves get darker by rank, as budgets span powers of ten.
    rows["number"] = _DARKEST ** rows[by].rank(method="dense", pct=True)
    sizes = rows.N.unique().tolist()
    by_size = partial(Panel, x_label="parameters N", x=sizes, log="x", picture="scaling_law")
    drawn = []
    residuals = []
    for r, of_r in rows.groupby("r"):
        curves = []
        for value, same in of_r.groupby(by):
            # Of r alone as in the panels of budgets, which share the legend.
            label = f"r = {value:g}" if by == "r" else f"{by} {value}"
            name = label.replace(" = ", "-").replace(" ", "-")
            number = r if by == "r" else same.number.iloc[0]
            curves.append(_curve(label, f"{name}-law", same.N, same.law, number))
            losses = _curve(label, f"{name}-measured", same.N, same.loss, number, points=True)
            curves.append(losses)
        title = f"r = {r:g}; points: measured, lines: the law"
        drawn.append(by_size(f"loss-r-{r:g}", title, y_label="loss", curves=curves))
        residuals.append(_curve(f"r = {r:g}", f"r-=-{r:g}", of_r.N, of_r.missed, r, points=True))
    by_size = partial(by_size, y_label="loss less the law's, %", levels={"the law": 0.0})
    drawn.append(by_size("residuals", "What the law misses", curves=residuals))
    return drawn


def _by_budget(result: Fitted, budget: float | None) -> list[Panel]:
    """The law's losses by size for a budget, the middle one of those measured if none is given, and
    its least losses by budget, for each r; with those measured near it, and the least ones."""
    law = result.fit.law
    rows = rows_of(result)
    if budget is None:
        budget = float(rows.budget.quantile(interpolation="nearest"))
    rows["near"] = rows.budget.map(rounded_budget)
    nearest = min(rows.near, key=lambda near: abs(near - math.log10(budget)))
    near = rows[rows.near == nearest]
    least = rows.loc[rows.groupby(["near", "r"]).loss.idxmin()]
    sizes = np.geomspace(near.N.min() / 2, near.N.max() * 2, _POINTS)
    budgets = np.geomspace(rows.budget.min() / 3, rows.budget.max() * 10, _POINTS)
    by_size = []
    by_budget = []
    for design in designs(result):
        r = design.r
        line = partial(Curve, label=f"r = {r:g}", kind="loops", name=f"r-{r:g}-law", number=r)
        measured = partial(_curve, f"r = {r:g}", f"r-{r:g}", number=r, points=True)
        best = [design.best(law, flops)[-1] for flops in budgets]
        of_r = near[near.r == r]
        least_of_r = least[least.r == r]
        losses = design.loss(law, sizes, budget).tolist()
        by_size += [line(mean=losses), measured(of_r.N, of_r.loss)]
        by_budget += [line(mean=best), measured(least_of_r.budget, least_of_r.loss)]
    panel = partial(Panel, y_label="loss", log="x", picture="scaling_law")
    title = f"{budget:.3g} FLOPs; points: measured near it, lines: the law"
    least_title = "The least loss of a budget; points: measured, lines: the law"
    return [
        panel("sizes", title, "parameters N", x=sizes.tolist(), curves=by_size),
        panel("least", least_title, "FLOPs of training", x=budgets.tolist(), curves=by_budget),
    ]


def _by_phi(result: Fitted) -> Panel:
    """What the law misses at each phi from 0 to 1, with its other parameters fitted anew or held
    (the two sliders of the paper's page)."""
    table = result.table
    law = result.fit.law
    powers = np.linspace(0, 1, _POWERS)
    refitted = []
    held = []
    for phi in powers:
        anew = fit_law(table, {**result.fixed, "phi": phi}, law).law
        refitted.append(_missed(table, anew))
        held.append(_missed(table, replace(law, phi=phi)))
    curves = [
        Curve(label="others fitted anew", kind="looped", name="refitted", mean=refitted),
        Curve(label="others held", kind="standard", name="held", mean=held),
    ]
    return Panel(
        "phi",
        "What the law misses by phi",
        "phi",
        "root mean square of what it misses, %",
        powers.tolist(),
        curves,
        log="y",
        picture="scaling_law",
        marks={"the fit": [law.phi]},
    )


def _missed(table: DataFrame, law: Law) -> float:
    """The root mean square of the losses less the law's, in per cent."""
    return 100 * float(np.sqrt(np.square(np.log(table.loss / law.loss(table))).mean()))


def _curve(
    label: str, name: str, x: Series, y: Series, number: float, points: bool = False
) -> Curve:
    """A curve of values over sizes; the larger its number, the darker."""
    return Curve(
        label=label,
        kind="loops",
        name=name,
        x=x.tolist(),
        mean=y.tolist(),
        number=float(number),
        points=points,
    )


def text_of(result: Fitted) -> list[Part]:
    """The fit as a table, the intervals under its parameters, with numbers that are not determined
    in brackets; how the intervals were made, and why parameters are not determined."""
    fit = result.fit
    head = ["", *NAMES, "Huber", "R²"]
    rows = [["fit", *_cells(result, asdict(fit.law)), f"{fit.huber:.2e}", f"{fit.r2:.5f}"]]
    for end, values in (("5 %", result.low), ("95 %", result.high)):
        rows.append([end, *_cells(result, values)])
    loops = ", ".join(f"{r:g}" for r in np.unique(result.table.r))
    reasons: dict[str, list[str]] = {}
    for name, reason in result.not_determined.items():
        reasons.setdefault(reason, []).append(name)
    resampled = f"{result.resamples} resamples of {result.clusters} clusters of rows"
    parts: list[Part] = [f"{FORMULA}, {len(result.table)} rows, r = {loops}"]
    parts.append(Table(head, rows))
    parts.append(f"5 % and 95 %: of {resampled}; Huber: mean loss of log L")
    parts += [f"not determined: {', '.join(names)}: {why}" for why, names in reasons.items()]
    parts += [f"held: {name} = {value:g}" for name, value in result.fixed.items()]
    return parts


def _cells(result: Fitted, values: Mapping[str, float | None]) -> list[str]:
    """The parameters, or an end of their intervals, as text; in brackets what the losses do not
    determine."""
    cells = []
    for name, value in values.items():
        if value is None:
            cells.append("edge")
        elif name in result.not_determined:
            cells.append(f"({value:.3g})")
        else:
            cells.append(f"{value:.4g}")
    return cells
