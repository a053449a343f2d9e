"""The fits of a scaling law to one table, as plain values, as text and as files.

result = fitted(table, fixed={"E": 0.25}, clusters=["r", "budget"], resamples=200, seed=0)
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
    fixed: Mapping[str, float],
    clusters: Sequence[str],
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """The law with all but `fixed` free, its 90 % intervals, the parameters that are not
    determined, and the laws with phi = 0 and phi = 1. `intervals` has the outer ends of the
    resamples' and the profiles' intervals, which are under `resampled` and `profiled`;
    `not_determined`, the reason for each such parameter. Raises RunError for a table or clusters
    that cannot determine the law."""
    groups = table.groups(clusters)
    fits = {"free": fit_law(table, fixed)}
    fits |= {f"phi = {phi:g}": fit_law(table, {**fixed, "phi": phi}) for phi in (0.0, 1.0)}
    bootstrap_intervals = intervals(table, fits["free"], groups, resamples, seed)
    profile_intervals = profiles(table, fits["free"])
    certainties = asdict(certainty(table, fits["free"], bootstrap_intervals, profile_intervals))
    extra = {name: certainties.pop(name) for name in ("not_determined", "factors")}
    return {
        "rows": {name: getattr(table, name).tolist() for name in COLUMNS},
        "held": dict(fixed),
        "clusters": {"columns": list(clusters), "number": int(groups.max()) + 1},
        "resamples": resamples,
        "seed": seed,
        "fits": {name: _of_fit(fit) for name, fit in fits.items()},
        "intervals": certainties
        | {
            "used": bootstrap_intervals.used,
            "resampled": asdict(bootstrap_intervals),
            "profiled": asdict(profile_intervals),
        },
        **extra,
    }


def folder_of(result: Mapping[str, Any], table: ScalingTable, runs: Path, name: str) -> Path:
    """<runs>/scaling_law-<name>-<hash>, the hash of table and settings."""
    request = {key: result[key] for key in ("rows", "held", "clusters", "resamples", "seed")}
    digest = hashlib.sha256(json.dumps([request, dict(table.labels)]).encode()).hexdigest()[:8]
    return runs / f"scaling_law-{name}-{digest}"


def write(result: Mapping[str, Any], table: ScalingTable, folder: Path) -> None:
    """Write scaling_law.json and the figure into a folder."""
    law, undetermined = Law(**result["fits"]["free"]["law"]), result["not_determined"]
    draw_scaling(table, law, folder / "figures", list(undetermined))
    write_json(folder / "scaling_law.json", result)


def report(result: Mapping[str, Any]) -> str:
    """The fits as a table for the terminal, the intervals under the free one's parameters; numbers
    that are not determined in brackets."""
    rows = result["rows"]
    loops = ", ".join(f"{r:g}" for r in sorted(set(rows["r"])))
    lines = [
        f"L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta, {len(rows['r'])} rows, r = {loops}",
        _line(["", *NAMES, "Huber", "R²"]),
    ]
    for name, fit in result["fits"].items():
        law = [_value_text(result, parameter, fit["law"][parameter], name) for parameter in NAMES]
        lines.append(_line([name, *law, f"{fit['huber']:.2e}", f"{fit['r2']:.5f}"]))
        if name == "free":
            for end, level in (("low", "5 %"), ("high", "95 %")):
                lines.append(_line([level, *_ends(result, end)]))
    return "\n".join([*lines, _method(result), *_unknown(result), *_notes(result)])


def _method(result: Mapping[str, Any]) -> str:
    """The method of the intervals."""
    clusters, shared_columns = result["clusters"], ", ".join(result["clusters"]["columns"])
    units = f"clusters (rows with the same {shared_columns})" if shared_columns else "rows"
    return (
        f"5 % and 95 %: of {result['intervals']['used']} resamples of {clusters['number']} "
        f"{units}; further out where a parameter's\n"
        "profile (it is moved, the others fitted anew) reaches further; Huber: mean loss of log L"
    )


def _unknown(result: Mapping[str, Any]) -> list[str]:
    """A line for each reason why parameters are not determined, and one for those that are badly
    determined."""
    reasons: dict[str, list[str]] = {}
    for name, reason in result["not_determined"].items():
        reasons.setdefault(reason, []).append(name)
    lines = [
        f"not determined: {', '.join(names)}: {reason_text}"
        for reason_text, names in reasons.items()
    ]
    if result["factors"]:
        factors = ", ".join(f"{name} {factor:.2g}" for name, factor in result["factors"].items())
        lines.append(f"badly determined, the ends of the interval apart by a factor of: {factors}")
    return lines


def _notes(result: Mapping[str, Any]) -> list[str]:
    """The fixed parameters, and those at an edge of the search."""
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
    """One end of the intervals; "edge" for an edge of the search."""
    intervals = result["intervals"]
    at_edge = intervals[f"{end}_at_edge"]
    return [
        "edge" if name in at_edge else _value_text(result, name, intervals[end][name])
        for name in NAMES
    ]


def _value_text(result: Mapping[str, Any], name: str, value: float, fit: str = "free") -> str:
    """A parameter's number; in brackets if the losses do not determine it (in the fit "phi = 0" phi
    needs no losses)."""
    undetermined = name in result["not_determined"] and not fit.startswith(name)
    return f"({value:.3g})" if undetermined else f"{value:.4g}"


def _line(cells: Sequence[str]) -> str:
    first, *rest = cells
    return (first.ljust(8) + "".join(cell.rjust(11) for cell in rest)).rstrip()
