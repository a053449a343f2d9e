"""A fitted scaling law as a figure with a slider over phi: the other parameters are fitted anew at
each of its values, so that the reader sees how well each explains the losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from looplab.conf.mistakes import RunError
from looplab.evaluation.style import style_of_number
from looplab.experiments.scaling_law.fit import Fit, fit_law
from looplab.experiments.scaling_law.problem import Law
from looplab.experiments.scaling_law.table import COLUMNS, ScalingTable

from .figure import Figure, csv_text, data_link, short

_PHIS = np.round(np.arange(-0.2, 1.2001, 0.05), 2)  # besides the fitted one


def law_figure(result: Mapping[str, Any], command: str, of: str) -> Figure:
    """The figure of the content of a scaling_law.json: losses against the parameters counted with
    r^phi, a line for each D. Raises KeyError, TypeError or RunError for another content."""
    rows = {name: np.array(result["rows"][name], dtype=np.float64) for name in COLUMNS}
    table, held = (
        ScalingTable(rows["N_once"], rows["N_rec"], rows["r"], rows["D"], rows["loss"]),
        dict(result["held"]),
    )
    free = Law(**result["fits"]["free"]["law"])
    fits = _fits(table, held, free)
    start = next(i for i, (phi, _) in enumerate(fits) if phi == free.phi)
    r2 = result["fits"]["free"]["r2"]
    chart = {
        "x": "parameters that count: N_once + r^φ N_rec",
        "y": "loss",
        "logX": True,
        "logY": False,
        "slider": "φ",
        "levels": {"E": free.E} if free.E > 0 else {},
        "law": {
            "fits": [_plain(fit) for _, fit in fits],
            "start": start,
            "colours": {f"{r:g}": style_of_number(r)["color"] for r in np.unique(table.r)},
        },
    }  # fmt: skip
    unknown = ", ".join(result.get("not_determined", {}))
    return {
        "title": "The law of what one recurrence is worth",
        "sentence": (
            f"L = E + A (N_once + r^φ N_rec)^-α + B D^-β fitted to {len(table)} models: "
            f"φ {short(free.phi)}{_interval(result)}, R² {r2:.4f}. At the slider's φ the other "
            "parameters are fitted anew; where φ is right, models of all r lie on the same lines."
            + (f" Not determined by these losses: {unknown}." if unknown else "")
        ),
        "file": f"{of}.csv",  # which the command can read
        "csv": data_link(csv_text({name: map(repr, rows[name].tolist()) for name in COLUMNS})),
        "chart": chart,
        "command": command,
    }


def _fits(table: ScalingTable, held: Mapping[str, float], free: Law) -> list[tuple[float, Fit]]:
    """The fit at each phi, from the free one outwards: each starts at its neighbour's."""
    phis = sorted({*_PHIS.tolist(), free.phi})
    middle = phis.index(free.phi)
    fits: dict[float, Fit] = {}
    for order in (phis[middle:], phis[middle::-1]):
        law = free
        for phi in order:
            try:
                fit = fit_law(table, {**held, "phi": phi}, start=law)
            except RunError:
                continue
            fits[phi], law = fit, fit.law
    return sorted(fits.items())


def _plain(fit: Fit) -> dict[str, float]:
    """A fit for the script: the law's parameters, the Huber loss and R²."""
    law = {name: float(f"{value:.6g}") for name, value in asdict(fit.law).items()}
    return {**law, "huber": float(f"{fit.huber:.3g}"), "r2": round(fit.r2, 5)}


def _interval(result: Mapping[str, Any]) -> str:
    ends = result.get("intervals", {})
    low, high = ends.get("low", {}).get("phi"), ends.get("high", {}).get("phi")
    return "" if low is None or high is None else f" ({short(low)} to {short(high)})"
