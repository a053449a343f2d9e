"""The fits of a scaling law to one table, as plain values, as text and as files.

result = fitted(table, held={"E": 0.25}, clusters=["r", "budget"], resamples=200, seed=0)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reloop.training.run_folder.files import write_json

from .bootstrap import intervals
from .certainty import certainty
from .fit import Fit, fit_law
from .pictures import draw_scaling
from .problem import NAMES, Law
from .profile import profiles
from .table import COLUMNS, ScalingTable


def fitted(
    table: ScalingTable,
    held: Mapping[str, float],
    clusters: Sequence[str],
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """The law with all but `held` free, its 90 % intervals, what is not determined, and the laws
    with phi = 0 and phi = 1 too. `intervals` holds the outer ends of the resamples' and the
    profiles', which stand under `resampled` and `profiled`; `not_determined`, a reason for each
    parameter that is not. Raises RunError for a table or clusters that cannot tell."""
    groups = table.groups(clusters)
    fits = {"free": fit_law(table, held)}
    fits |= {f"phi = {phi:g}": fit_law(table, {**held, "phi": phi}) for phi in (0.0, 1.0)}
    resampled = intervals(table, fits["free"], groups, resamples, seed)
    profiled = profiles(table, fits["free"])
    known = asdict(certainty(table, fits["free"], resampled, profiled))
    beside = {name: known.pop(name) for name in ("not_determined", "factors")}
    return {
        "rows": {name: getattr(table, name).tolist() for name in COLUMNS},
        "held": dict(held),
        "clusters": {"columns": list(clusters), "number": int(groups.max()) + 1},
        "resamples": resamples,
        "seed": seed,
        "fits": {name: _of_fit(fit) for name, fit in fits.items()},
        "intervals": known
        | {"used": resampled.used, "resampled": asdict(resampled), "profiled": asdict(profiled)},
        **beside,
    }


def folder_of(result: Mapping[str, Any], table: ScalingTable, runs: Path, name: str) -> Path:
    """<runs>/scaling_law-<name>-<hash>, the hash of table and settings."""
    asked = {key: result[key] for key in ("rows", "held", "clusters", "resamples", "seed")}
    digest = hashlib.sha256(json.dumps([asked, dict(table.labels)]).encode()).hexdigest()[:8]
    return runs / f"scaling_law-{name}-{digest}"


def write(result: Mapping[str, Any], table: ScalingTable, folder: Path) -> None:
    """Write scaling_law.json and the figure into a folder."""
    law, unknown = Law(**result["fits"]["free"]["law"]), result["not_determined"]
    draw_scaling(table, law, folder / "figures", list(unknown))
    write_json(folder / "scaling_law.json", result)


def report(result: Mapping[str, Any]) -> str:
    """The fits as a table for the terminal, the intervals under the free one's parameters; in
    brackets what is not determined."""
    rows = result["rows"]
    loops = ", ".join(f"{r:g}" for r in sorted(set(rows["r"])))
    lines = [
        f"L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta, {len(rows['r'])} rows, r = {loops}",
        _line(["", *NAMES, "Huber", "R²"]),
    ]
    for name, fit in result["fits"].items():
        law = [_shown(result, parameter, fit["law"][parameter], name) for parameter in NAMES]
        lines.append(_line([name, *law, f"{fit['huber']:.2e}", f"{fit['r2']:.5f}"]))
        if name == "free":
            for end, level in (("low", "5 %"), ("high", "95 %")):
                lines.append(_line([level, *_ends(result, end)]))
    return "\n".join([*lines, _way(result), *_unknown(result), *_notes(result)])


def _way(result: Mapping[str, Any]) -> str:
    """How the intervals were found."""
    clusters, together = result["clusters"], ", ".join(result["clusters"]["columns"])
    which = f"clusters (rows with the same {together})" if together else "rows"
    return (
        f"5 % and 95 %: of {result['intervals']['used']} resamples of {clusters['number']} "
        f"{which}; further out where a parameter's\n"
        "profile (it is moved, the others fitted anew) reaches further; Huber: mean loss of log L"
    )


def _unknown(result: Mapping[str, Any]) -> list[str]:
    """A line for each reason why parameters are not determined, and one for those that are known to
    a factor only."""
    reasons: dict[str, list[str]] = {}
    for name, reason in result["not_determined"].items():
        reasons.setdefault(reason, []).append(name)
    lines = [f"not determined: {', '.join(names)}: {why}" for why, names in reasons.items()]
    if result["factors"]:
        apart = ", ".join(f"{name} {factor:.2g}" for name, factor in result["factors"].items())
        lines.append(f"badly determined, the ends of the interval apart by a factor of: {apart}")
    return lines


def _notes(result: Mapping[str, Any]) -> list[str]:
    """What is held, and what ends where the search does."""
    lines = []
    if result["held"]:
        lines.append("held: " + ", ".join(f"{k} = {v:g}" for k, v in result["held"].items()))
    for name, fit in result["fits"].items():
        if fit["at_edge"]:
            ends = ", ".join(fit["at_edge"])
            lines.append(f"{name}: {ends} ended at the edge of the range searched: undetermined")
    for end, level in (("low", "5 %"), ("high", "95 %")):
        if at_edge := result["intervals"][f"{end}_at_edge"]:
            ends = ", ".join(at_edge)
            lines.append(f"{level}: {ends} at the edge of the range searched: the interval is open")
    return lines


def _of_fit(fit: Fit) -> dict[str, Any]:
    return {
        "law": asdict(fit.law),
        "huber": fit.huber,
        "r2": fit.r2,
        "at_edge": list(fit.at_edge),
    }


def _ends(result: Mapping[str, Any], end: str) -> list[str]:
    """One end of the intervals; "edge" where it is where the search ends."""
    found = result["intervals"]
    at_edge = found[f"{end}_at_edge"]
    return ["edge" if n in at_edge else _shown(result, n, found[end][n]) for n in NAMES]


def _shown(result: Mapping[str, Any], name: str, value: float, fit: str = "free") -> str:
    """A parameter's number; in brackets where the losses do not determine it (`fit` "phi = 0" needs
    no phi of them)."""
    unknown = name in result["not_determined"] and not fit.startswith(name)
    return f"({value:.3g})" if unknown else f"{value:.4g}"


def _line(cells: Sequence[str]) -> str:
    first, *rest = cells
    return (first.ljust(8) + "".join(cell.rjust(11) for cell in rest)).rstrip()
