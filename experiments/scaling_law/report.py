"""A fitted law as text, as panels and as a file.

result = fitted(table, {"E": 0.25}, ["r", "budget"], resamples=200, seed=0)
"""

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame, Series

from looplab.conf.command import as_word
from looplab.conf.schema import FigureSettings
from looplab.evaluation.kept import shown
from looplab.show.drawing import save_panels
from looplab.show.panel import Curve, Panel
from looplab.show.tables import Part, Table
from looplab.training.run_folder.files import write_bytes

from .law import FORMULA, NAMES, Difference, Fitted, Law
from .worth import page

_DARKEST = 64.0  # number of loops, from which on curves get no darker


def write(
    result: Fitted,
    folder: Path,
    settings: Mapping[str, Any],
    figures: FigureSettings,
    difference: Difference | None = None,
) -> None:
    """Write scaling_law.json, with the command's `settings` and the panels, figures/ and page.html
    into a folder, unless they are there; with a `difference` of which the result is the
    baseline."""
    drawn = law_panels(result.table, result.fit.law)
    unknown = ", ".join(result.not_determined)
    phi, r2 = result.phi(), result.fit.r2
    ends = "" if None in phi.values() else f" ({phi['low']:.3g} to {phi['high']:.3g})"
    words = [f"{key}={as_word(value)}" for key, value in settings.items()]
    content = {
        "rows": result.table.to_dict("list"),
        "held": dict(result.fixed),
        "fit": asdict(result.fit),
        "intervals": {"low": dict(result.low), "high": dict(result.high)},
        "clusters": result.clusters,
        "resamples": result.resamples,
        "not_determined": dict(result.not_determined),
        "settings": dict(settings),
        "command": shlex.join(["python", "-m", "experiments.scaling_law", *words]),
        "verdict": f"{FORMULA} fitted to {len(result.table)} models: phi {phi['value']:.3g}{ends}, "
        f"R² {r2:.4f}" + (f"; not determined by these losses: {unknown}" if unknown else ""),
        **({"difference": _plain(difference)} if difference else {}),
        "panels": [panel.plain() for panel in drawn],
        "figures": figures.plain(),
    }
    notes = [f"not determined: {unknown}"] if unknown else []

    def make() -> list[Path]:
        write_bytes(folder / "page.html", page(result).encode())
        pictures = save_panels(folder / "figures", drawn, figures, remarks=notes)
        return [*pictures, folder / "page.html"]

    shown(folder / "scaling_law.json", "scaling_law", content, make)


def _plain(difference: Difference) -> dict[str, Any]:
    """A difference of phi as JSON: of the changed models the law and phi's interval."""
    names = ("shared", "delta", "low", "high")
    return {
        **{name: getattr(difference, name) for name in names},
        "changed": {"fit": asdict(difference.changed.fit), "phi": difference.changed.phi()},
        "verdict": text_of_difference(difference),
    }


def text_of_difference(difference: Difference) -> str:
    """The difference of phi with its interval, what it says of the change, and how many runs would
    tell where it says nothing."""
    ends = [
        f"{end:.3g}" if end is not None else "open" for end in (difference.low, difference.high)
    ]
    value = f"phi with the change less phi without it: {difference.delta:.3g}"
    if difference.settled():
        says = "a recurrence is worth " + ("more" if difference.delta > 0 else "less") + " with it"
    else:
        says = "not settled"
        if runs := difference.runs_needed():
            says += f": about {runs:,} runs with the change would settle it, in place of "
            says += f"{len(difference.changed.table) - difference.shared}"
    return f"{value} ({' to '.join(ends)}): {says}"


def law_panels(table: DataFrame, law: Law) -> list[Panel]:
    """For each r the measured losses by size with the law's, joined by lines; and what the law
    misses.

    A curve is the models of one r and budget, or of one r and D where no budget has several.
    """
    expected = law.loss(table)
    missed = 100 * np.log(table.loss / expected)
    rows = table.assign(N=table.N_once + table.N_rec, law=expected, missed=missed).sort_values("N")
    several = [
        name for name in ("budget", "D") if name in rows and rows.duplicated(["r", name]).any()
    ]
    by = [*several, "r"][0]
    rows["number"] = _DARKEST ** rows[by].rank(method="dense", pct=True)
    by_size = partial(
        Panel, x_label="parameters N", x=rows.N.unique().tolist(), log="x", picture="scaling_law"
    )
    drawn, residuals = list[Panel](), list[Curve]()
    for r, of_r in rows.groupby("r"):
        curves = []
        for value, part in of_r.groupby(by):
            label, number = f"{by} {value}", part.number.iloc[0]
            curves.append(_curve(label, part.N, part.law, number, "law"))
            curves.append(_curve(label, part.N, part.loss, number, "measured", points=True))
        title = f"r = {r:g}; points: measured, lines: the law"
        drawn.append(by_size(f"loss-r-{r:g}", title, y_label="loss", curves=curves))
        residuals.append(_curve(f"r = {r:g}", of_r.N, of_r.missed, r, points=True))
    axis, zero = "loss less the law's, %", {"the law": 0.0}
    residual = by_size(
        "residuals", "What the law misses", y_label=axis, curves=residuals, levels=zero
    )
    return [*drawn, residual]


def _curve(label: str, x: Series, y: Series, number: float, part: str = "", **more: Any) -> Curve:
    name = " ".join(filter(None, (label, part))).replace(" ", "-")
    return Curve(
        label=label,
        kind="loops",
        name=name,
        x=x.tolist(),
        mean=y.tolist(),
        number=float(number),
        **more,
    )


def text_of(result: Fitted) -> list[Part]:
    """The fit as a table, the intervals under its parameters, with numbers that are not determined
    in brackets; how the intervals were made, and why parameters are not determined."""
    fit = result.fit
    rows = [
        ["fit", *_cells(result, asdict(fit.law)), f"{fit.huber:.2e}", f"{fit.r2:.5f}"],
        ["5 %", *_cells(result, result.low)],
        ["95 %", *_cells(result, result.high)],
    ]
    loops = ", ".join(f"{r:g}" for r in np.unique(result.table.r))
    reasons: dict[str, list[str]] = {}
    for name, reason in result.not_determined.items():
        reasons.setdefault(reason, []).append(name)
    return [
        f"{FORMULA}, {len(result.table)} rows, r = {loops}",
        Table(["", *NAMES, "Huber", "R²"], rows),
        f"5 % and 95 %: of {result.resamples} resamples of {result.clusters} clusters of rows; "
        "Huber: mean loss of log L",
        *(f"not determined: {', '.join(names)}: {why}" for why, names in reasons.items()),
        *(f"held: {name} = {value:g}" for name, value in result.fixed.items()),
    ]


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
