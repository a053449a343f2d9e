"""A sweep over learning rates as a table with its verdict in words, and as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from evaluation.figures import band, legend_beside, line, note_level, save, styled

from .stability_tables import LABELS

PLATEAU = 0.9  # of the initial error; above it a model has hardly begun to learn


def report(result: Mapping[str, Any]) -> str:
    """Mean errors by rate, the best marked; then what they say."""
    lines = [
        f"linear regression in context, {result['what']}: error after {result['steps']:,} steps, "
        f"mean of {len(result['seeds'])} seeds",
        f"(predicting zero {result['zero']:g}, the least possible {result['bayes']:.3f}; * the "
        "best rate; runs that collapsed are left out, their number in brackets)",
        "",
    ]
    head = ["", *(f"{rate:.3g}" for rate in result["rates"])]
    rows = [head]
    for scaling, by_loops in result["scalings"].items():
        for R, found in by_loops.items():
            best = result["best"][scaling][R]
            cells = [
                _cell(row) + ("*" if best is not None and i == best["place"] else " ")
                for i, row in enumerate(found["errors"])
            ]
            rows.append([f"{scaling}, R = {R}", *cells])
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], wide[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(wide[0]), *cells]).rstrip())
    return "\n".join([*lines, "", *verdict(result)])


def verdict(result: Mapping[str, Any]) -> list[str]:
    """What the sweep says, a sentence each."""
    few, many = result["loops"][0], result["loops"][-1]
    lines = [
        f"{scaling}: from R = {few} to {many} the best rate {_movement(found)}"
        for scaling, found in result["move"].items()
    ]
    before, after = result["scalings"]
    lines += [
        f"R = {R}: {after} over {before}, each at its best rate: {_gain(found)}"
        for R, found in result["gain"].items()
    ]
    least = PLATEAU * result["initial"]
    stuck = [
        f"{scaling} R = {R}"
        for scaling, by_loops in result["best"].items()
        for R, best in by_loops.items()
        if best is not None and best["error"] > least
    ]
    if stuck:
        lines.append(
            f"still above {least:.2f} at the best rate, so that it means little: "
            + ", ".join(stuck)
        )
    lost = sum(
        bool(why)
        for by_loops in result["scalings"].values()
        for found in by_loops.values()
        for row in found["collapsed"]
        for why in row
    )
    return [*lines, f"runs that collapsed: {lost}", "± is the 95 % interval over seeds"]


def draw(result: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Error by rate, a panel a scaling, a curve an R with the least and the most of its seeds, a
    star at the best rate."""
    path, columns, rates = folder / f"{name}.png", {}, result["rates"]
    with styled():
        figure = Figure(figsize=(10.0, 4.0))
        panels = figure.subplots(1, len(result["scalings"]), sharey=True)
        for axes, (scaling, by_loops) in zip(panels, result["scalings"].items(), strict=True):
            for index, (R, found) in enumerate(by_loops.items()):
                curve = _curve(found["errors"])
                columns[f"{scaling}_R{R}"] = curve
                band(axes, rates, curve, f"R = {R}", line(index))
                if (best := result["best"][scaling][R]) is not None:
                    star = {"color": line(index)["color"], "markersize": 13, "zorder": 3}
                    axes.plot(best["rate"], best["error"], "*", **star)
            _dress(axes, result, scaling, by_loops)
        panels[0].set_ylabel("error / error of predicting zero")
        legend_beside(panels[-1])
        figure.suptitle(
            f"linear regression in context, {result['what']}, {result['steps']:,} steps"
        )
        save(figure, path, "rate", rates, columns)
    return [path]


def _dress(
    axes: Axes, result: Mapping[str, Any], scaling: str, by_loops: Mapping[str, Any]
) -> None:
    rates = result["rates"]
    axes.set_xscale("log")
    axes.set_xticks(rates, [f"{rate:.3g}" for rate in rates])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("learning rate")
    note_level(axes, result["zero"], "predicting zero")
    note_level(axes, result["bayes"], "least possible")
    runs = [error for found in by_loops.values() for row in found["errors"] for error in row]
    lost = sum(error is None for error in runs)
    axes.set_title(f"{LABELS[scaling]}; {lost} of {len(runs)} runs collapsed", fontsize=10)


def _curve(errors: Sequence[Sequence[float | None]]) -> dict[str, list[float | None]]:
    """Of errors [rates][seeds] the mean, least and most of those there are, and how many are
    not."""
    curve: dict[str, list[float | None]] = {"mean": [], "low": [], "high": [], "collapsed": []}
    for row in errors:
        there = [error for error in row if error is not None]
        curve["mean"].append(float(np.mean(there)) if there else None)
        curve["low"].append(min(there, default=None))
        curve["high"].append(max(there, default=None))
        curve["collapsed"].append(len(row) - len(there))
    return curve


def _cell(row: Sequence[float | None]) -> str:
    there = [error for error in row if error is not None]
    mean = f"{np.mean(there):.3f}" if there else "-"
    return mean if len(there) == len(row) else f"{mean} ({len(row) - len(there)})"


def _movement(found: Mapping[str, Any]) -> str:
    if found["verdict"] == "unknown":
        return "is unknown: not every seed came through"
    moved = f"by {found['mean']:+.2f}{_half(found)} octaves"
    said = {"up": "moves up", "down": "moves down", "no movement": "does not move:"}
    beyond = "; a best rate is the outermost that was tried" if found["at_least"] else ""
    return f"{said[found['verdict']]} {moved}{beyond}"


def _gain(found: Mapping[str, Any]) -> str:
    if found["verdict"] == "unknown":
        return "unknown: one of them came through at no rate"
    return f"{found['verdict']} ({found['mean']:+.3f}{_half(found)})"


def _half(found: Mapping[str, Any]) -> str:
    return f" ± {found['half']:.3f}" if math.isfinite(found["half"]) else " (one seed)"
