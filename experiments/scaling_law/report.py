"""The fits of a scaling law to one table, as text and as files.

result = fitted(table, fixed={"E": 0.25}, clusters=["r", "budget"], resamples=200, seed=0)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from looplab.conf.checksum import key_of
from looplab.conf.schema import FigureSettings
from looplab.evaluation.figures import Pictures, drawn_once
from looplab.evaluation.tables import Part, Table
from looplab.training.run_folder.files import write_json

from .certainty import Certainty, Intervals, certainty, intervals
from .fit import Fit, fit_law
from .pictures import draw_scaling
from .problem import NAMES
from .profile import Profiles, profiles
from .table import COLUMNS, ScalingTable


@dataclass(frozen=True)
class Fitted:
    """The law with all but the `fixed` parameters free, and those with phi = 0 and phi = 1, by
    name; the 90 % intervals of the free one by resampling `clusters` and by profiles; and the
    certainty of its parameters, with the outer ends of both intervals."""

    table: ScalingTable
    fixed: Mapping[str, float]
    columns: Sequence[str]  # whose rows are a cluster where they agree
    clusters: int
    resamples: int
    seed: int
    fits: Mapping[str, Fit]
    resampled: Intervals
    profiled: Profiles
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
        ends["used"] = self.resampled.used
        ends |= {"resampled": asdict(self.resampled), "profiled": asdict(self.profiled)}
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
    resampled = intervals(table, free, groups, resamples, seed)
    profiled = profiles(table, free)
    known = certainty(table, free, resampled, profiled)
    return Fitted(
        table, fixed, columns, int(groups.max()) + 1, resamples, seed, {"free": free, **fits},
        resampled, profiled, known,
    )  # fmt: skip


def _loops_once(table: ScalingTable) -> bool:
    return len(table) > 0 and bool((table.r == 1).all())


def folder_of(result: Fitted, runs: Path, name: str) -> Path:
    """<runs>/scaling_law-<name>-<hash>, the hash of table and settings."""
    return runs / f"scaling_law-{name}-{digest([result.request(), dict(result.table.labels)])}"


def digest(content: Any) -> str:
    """The hash of plain values in the name of a folder."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]


def write(result: Fitted, folder: Path, figures: FigureSettings | None = None) -> None:
    """Write scaling_law.json and, as `figures` say, the figure into a folder; the figure unless it
    is there."""
    content = result.to_json()
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "scaling_law.json", content)
    key = key_of([content, dict(result.table.labels)])
    undetermined = list(result.certainty.not_determined)

    def draw(pictures: Pictures) -> None:
        draw_scaling(result.table, result.fits["free"].law, pictures, undetermined)

    drawn_once(folder / "figures" / "drawn.json", key, figures or FigureSettings(), draw)


def report(result: Fitted) -> list[Part]:
    """The fits as a table with sentences, the intervals under the free one's parameters; numbers
    that are not determined in brackets."""
    loops = ", ".join(f"{r:g}" for r in sorted(set(result.table.r)))
    law_text = "L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta"
    title = f"{law_text}, {len(result.table)} rows, r = {loops}"
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
        f"5 % and 95 %: of {result.resampled.used} resamples of {result.clusters} "
        f"{units}; further out where a parameter's\n"
        "profile (it is moved, the others fitted anew) reaches further; Huber: mean loss of log L"
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
