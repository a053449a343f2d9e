"""The fits of a scaling law to one table, as text, as panels and as a file.

result = fitted(table, fixed={"E": 0.25}, clusters=["r", "budget"], resamples=200, seed=0)
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from looplab.conf.command import as_word
from looplab.conf.mistakes import RunError
from looplab.conf.schema import FigureSettings
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.kept import shown
from looplab.evaluation.panel import Curve, Panel
from looplab.evaluation.tables import Part, Table

from .certainty import Certainty, certainty
from .law import NAMES, Fit, fit_law
from .table import COLUMNS, ScalingTable

FORMULA = "L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta"
_PHIS = np.round(np.arange(-0.2, 1.21, 0.1), 1)  # of the slider, besides the fitted one
_LINE = 9  # points of the law's lines there
_DARKEST = 64.0  # number of loops, from which on curves get no darker


@dataclass(frozen=True)
class Fitted:
    """The law with all but the `fixed` parameters free, and those with phi = 0 and phi = 1, by
    name; and the certainty of the free one's parameters, by resampling `clusters`."""

    table: ScalingTable
    fixed: Mapping[str, float]
    columns: Sequence[str]  # whose rows are a cluster where they agree
    clusters: int
    resamples: int
    seed: int
    fits: Mapping[str, Fit]
    certainty: Certainty

    def request(self) -> dict[str, Any]:
        """The table and the settings, as plain values."""
        return {
            "rows": {name: getattr(self.table, name).tolist() for name in COLUMNS},
            "held": dict(self.fixed),
            "clusters": {"columns": list(self.columns), "number": self.clusters},
            "resamples": self.resamples,
            "seed": self.seed,
        }

    def phi(self) -> dict[str, Any]:
        """phi and the ends of its 90 % interval, None where the search's edge is one."""
        known = self.certainty
        return {
            "value": self.fits["free"].law.phi,
            "low": None if "phi" in known.low_at_edge else known.low["phi"],
            "high": None if "phi" in known.high_at_edge else known.high["phi"],
        }

    def to_json(self) -> dict[str, Any]:
        """The content of scaling_law.json."""
        ends = asdict(self.certainty)
        reasons = {name: ends.pop(name) for name in ("not_determined", "factors")}
        fits = {name: asdict(fit) for name, fit in self.fits.items()}
        for fit in fits.values():
            del fit["fixed"]
        return {**self.request(), "fits": fits, "intervals": ends, **reasons}


def fitted(
    table: ScalingTable,
    fixed: Mapping[str, float],
    columns: Sequence[str],
    resamples: int,
    seed: int,
) -> Fitted:
    """Of models that loop once, the law without phi. Raises RunError for a table or clusters that
    cannot determine the law."""
    groups = table.groups(columns)
    fixed = {**fixed, "phi": 0.0} if _loops_once(table) else fixed
    free = fit_law(table, fixed)
    phis = () if _loops_once(table) else (0.0, 1.0)
    fits = {f"phi = {phi:g}": fit_law(table, {**fixed, "phi": phi}) for phi in phis}
    known = certainty(table, free, groups, resamples, seed)
    clusters = int(groups.max()) + 1
    return Fitted(table, fixed, columns, clusters, resamples, seed, {"free": free, **fits}, known)


def _loops_once(table: ScalingTable) -> bool:
    return len(table) > 0 and bool((table.r == 1).all())


def write(
    result: Fitted, folder: Path, settings: Mapping[str, Any], figures: FigureSettings
) -> None:
    """Write scaling_law.json, with the command's `settings` and the panels, and figures/ into a
    folder, unless they are there."""
    drawn, unknown = panels(result), ", ".join(result.certainty.not_determined)
    free, phi = result.fits["free"], result.phi()
    ends = "" if None in phi.values() else f" ({phi['low']:.3g} to {phi['high']:.3g})"
    words = [f"{key}={as_word(value)}" for key, value in settings.items()]
    content = {
        **result.to_json(),
        "settings": dict(settings),
        "command": shlex.join(["python", "-m", "experiments.scaling_law", *words]),
        "verdict": f"{FORMULA} fitted to {len(result.table)} models: phi {phi['value']:.3g}{ends}, "
        f"R² {free.r2:.4f}" + (f"; not determined by these losses: {unknown}" if unknown else ""),
        "panels": [panel.plain() for panel in drawn],
        "figures": figures.plain(),
    }
    notes = [f"not determined: {unknown}"] if unknown else []
    shown(
        folder / "scaling_law.json", "scaling_law", content,
        lambda: save_panels(folder / "figures", drawn, figures, remarks=notes),
    )  # fmt: skip


def panels(result: Fitted) -> list[Panel]:
    """For each r measured losses by size, the law joined by lines and the lowest points of
    parabolas in log N; what the law misses; and the losses by the parameters that count, with a
    slider over phi, at each of which the other parameters are fitted anew.

    A curve is the models of one r and budget, or of one r and D if the table has no budget; of one
    r, if each model would be its own curve.
    """
    table, law = result.table, result.fits["free"].law
    grouping = ["budget"] if "budget" in table.labels else ["D"]
    if len(np.unique(table.groups(["r", *grouping]))) == len(table):
        grouping = []
    groups = table.groups(grouping) if grouping else np.zeros(len(table), dtype=np.intp)
    predicted, drawn, picture = law.loss(table), list[Panel](), "scaling_law"
    for r in np.unique(table.r):
        curves = []
        for group in np.unique(groups[table.r == r]):
            rows = np.flatnonzero((groups == group) & (table.r == r))
            rows = rows[np.argsort(table.parameters[rows], kind="stable")]
            label = "models"
            if grouping:
                of, (name,) = rows[0], grouping
                value = table.labels[name][of] if name in table.labels else f"{table.D[of]:.3g}"
                label = f"{name} {value}"
            sizes, number = table.parameters[rows], _DARKEST ** (group / max(groups.max(), 1))
            lowest = parabola_minimum(sizes, table.loss[rows])
            curves += [
                _curve(label, sizes, predicted[rows], number, "law"),
                _curve(label, sizes, table.loss[rows], number, "measured", points=True),
            ]
            if lowest is not None:
                size, loss = np.array(lowest)[:, None]
                curves.append(
                    _curve("lowest of a parabola", size, loss, number, label, points=True)
                )
        title = f"r = {r:g}; points: measured, lines: the law"
        x = np.unique(table.parameters[table.r == r]).tolist()
        drawn.append(
            Panel(
                f"loss-r-{r:g}", title, "parameters N", "loss", x, curves, log="x", picture=picture
            )
        )
    missed, x = 100 * np.log(table.loss / predicted), np.unique(table.parameters).tolist()
    curves = [
        _curve(f"r = {r:g}", table.parameters[rows], missed[rows], r, points=True)
        for r in np.unique(table.r)
        for rows in [table.r == r]
    ]
    axes = ("parameters N", "loss less the law's, %")
    drawn.append(
        Panel(
            "residuals", "What the law misses", *axes, x, curves, log="x", levels={"the law": 0.0},
            picture=picture,
        )
    )  # fmt: skip
    return [*drawn, *_by_phi(result)]


def _by_phi(result: Fitted) -> list[Panel]:
    """The losses by N_once + r^phi N_rec at each phi, and R² by phi."""
    table, free, curves, r2 = result.table, result.fits["free"].law, list[Curve](), {}
    for phi, fit in _fits(result).items():
        sizes, law = table.N_once + table.r**phi * table.N_rec, fit.law
        r2[phi] = fit.r2
        for data in np.unique(table.D):
            of = sizes[data == table.D]
            if len(of) > 1:
                x = np.geomspace(of.min(), of.max(), _LINE)
                y = law.E + law.A * x**-law.alpha + law.B * data**-law.beta
                line = Curve(
                    label=f"the law at D = {data:.3g}", kind="law", name=f"law-{data:g}",
                    x=x.tolist(), mean=y.tolist(), at=phi,
                )  # fmt: skip
                curves.append(line)
        for r in np.unique(table.r):
            of = table.r == r
            points = (sizes[of], table.loss[of])
            curves.append(_curve(f"r = {r:g}", *points, r, points=True, at=phi))
    title = f"The law with phi = {free.phi:.2f}: where phi is right, all r lie on the same lines"
    axes = ("parameters that count: N_once + r^φ N_rec", "loss")
    x = np.unique(table.N_once + table.r**free.phi * table.N_rec).tolist()
    of_phi = Curve(label="R²", kind="law", name="r2", mean=list(r2.values()))
    return [
        Panel(
            "scaling_law-by-phi", title, *axes, x, curves, log="x", slider="φ", start=free.phi,
            levels={"E": free.E} if free.E > 0 else {},
        ),
        Panel("scaling_law-r2", "How well each φ explains the losses", "φ", "R²", [*r2], [of_phi]),
    ]  # fmt: skip


def _fits(result: Fitted) -> dict[float, Fit]:
    """The fit at each phi, from the free one outwards: each starts at its neighbour's."""
    free = result.fits["free"]
    phis = sorted({free.law.phi} if "phi" in result.fixed else {*_PHIS.tolist(), free.law.phi})
    middle, fits = phis.index(free.law.phi), {free.law.phi: free}
    for order in (phis[middle + 1 :], phis[:middle][::-1]):
        law = free.law
        for phi in order:
            try:
                fits[phi] = fit_law(result.table, {**result.fixed, "phi": phi}, start=law)
            except RunError:
                continue
            law = fits[phi].law
    return dict(sorted(fits.items()))


def _curve(label: str, x: Floats, y: Floats, number: float, part: str = "", **more: Any) -> Curve:
    name = " ".join(filter(None, (label, part))).replace(" ", "-")
    return Curve(
        label=label, kind="loops", name=name, x=x.tolist(), mean=y.tolist(), number=float(number),
        **more,
    )  # fmt: skip


def parabola_minimum(sizes: Floats, losses: Floats) -> tuple[float, float] | None:
    """Size and loss at the minimum of the least-squares parabola in log N; None for fewer than
    three sizes, or if it has no minimum between the ends."""
    if len(np.unique(sizes)) < 3:
        return None
    centre = np.log(sizes).mean()
    curvature, slope, level = np.polyfit(np.log(sizes) - centre, losses, 2)
    if curvature <= 0:
        return None
    lowest = -slope / (2 * curvature)
    if not np.log(sizes).min() <= lowest + centre <= np.log(sizes).max():
        return None
    return math.exp(lowest + centre), float(level - slope**2 / (4 * curvature))


def report(result: Fitted) -> list[Part]:
    """The fits as a table with sentences, the intervals under the free one's parameters; numbers
    that are not determined in brackets."""
    loops = ", ".join(f"{r:g}" for r in sorted(set(result.table.r)))
    title = f"{FORMULA}, {len(result.table)} rows, r = {loops}"
    rows = []
    for name, fit in result.fits.items():
        law = [_value_text(result, key, value, name) for key, value in asdict(fit.law).items()]
        rows.append([name, *law, f"{fit.huber:.2e}", f"{fit.r2:.5f}"])
        if name == "free":
            for level, ends, at_edge in _levels(result):
                cells = [
                    "edge" if key in at_edge else _value_text(result, key, ends[key], name)
                    for key in NAMES
                ]
                rows.append([level, *cells])
    table = Table(["", *NAMES, "Huber", "R²"], rows)
    return [title, table, _method(result), *_unknown(result), *_notes(result)]


def _levels(result: Fitted) -> tuple[tuple[str, Mapping[str, float], tuple[str, ...]], ...]:
    """Both ends of the intervals: the level, the ends, and the parameters without one."""
    known = result.certainty
    return ("5 %", known.low, known.low_at_edge), ("95 %", known.high, known.high_at_edge)


def _method(result: Fitted) -> str:
    """The method of the intervals."""
    columns = ", ".join(result.columns)
    units = f"clusters (rows with the same {columns})" if columns else "rows"
    return (
        f"5 % and 95 %: of {result.certainty.used} resamples of {result.clusters} {units}; "
        "Huber: mean loss of log L"
    )


def _unknown(result: Fitted) -> list[str]:
    """A line for each reason why parameters are not determined, and one for those that are badly
    determined."""
    reasons: dict[str, list[str]] = {}
    for name, reason in result.certainty.not_determined.items():
        reasons.setdefault(reason, []).append(name)
    lines = [f"not determined: {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    if ratios := result.certainty.factors:
        factors = ", ".join(f"{name} {factor:.2g}" for name, factor in ratios.items())
        lines.append(f"badly determined, the ends of the interval apart by a factor of: {factors}")
    return lines


def _notes(result: Fitted) -> list[str]:
    """The fixed parameters, and those at an edge of the search."""
    lines = []
    held = dict(result.fixed)
    if _loops_once(result.table):
        del held["phi"]
        lines.append("r is 1 in every row: fitted without phi")
    if held:
        lines.append("held: " + ", ".join(f"{k} = {v:g}" for k, v in held.items()))
    for name, fit in result.fits.items():
        if fit.at_edge:
            ends = ", ".join(fit.at_edge)
            lines.append(f"{name}: {ends} ended at the edge of the range searched: undetermined")
    for level, _, at_edge in _levels(result):
        if at_edge:
            ends = ", ".join(at_edge)
            lines.append(f"{level}: {ends} at the edge of the range searched: the interval is open")
    return lines


def _value_text(result: Fitted, name: str, value: float, fit: str) -> str:
    """A parameter's number; in brackets if the losses do not determine it (in the fit "phi = 0" phi
    needs no losses)."""
    if name == "phi" and _loops_once(result.table):
        return "-"
    undetermined = name in result.certainty.not_determined and not fit.startswith(name)
    return f"({value:.3g})" if undetermined else f"{value:.4g}"
