"""The pictures of a run's dynamics: norms, changes, angles between increments, effective rank, and
for a loop that repeats itself how far its states are from a fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evaluation.figures import (
    Curve,
    band,
    legend_beside,
    line,
    mark_loops,
    save,
    styled,
    whole_numbers,
)

_RESIDUAL = "‖M(Yₜ) − Yₜ‖ / ‖Yₜ‖"
_LABELS = {
    "raw": "before the final norm",
    "stream": "what the next loop reads",
    "absolute": "‖Yₜ − Yₜ₋₁‖",
    "relative": "‖Yₜ − Yₜ₋₁‖ / ‖Yₜ‖",
    "residual": _RESIDUAL,
}


def figure_names(result: Mapping[str, Any]) -> list[str]:
    """The pictures' files."""
    names = ["norm", "change", "increment_cosines", "effective_rank"]
    return [f"{name}.png" for name in (*names, *(["residual"] if "residual" in result else []))]


def draw_dynamics(result: Mapping[str, Any], folder: Path) -> None:
    """Draw a result's pictures into `folder`."""
    standard = result["family"] == "standard"
    with styled():
        # A standard model's norm stands at the read-out: its two states are one.
        norms = ("stream",) if standard else ("raw", "stream")
        _curves(result, "norm", norms, "norm of a token's state", folder)
        _curves(
            result, "change", ("absolute", "relative"), f"change over a {_unit(result)}", folder
        )
        _cosines(result, folder / "increment_cosines.png")
        _rank(result, folder / "effective_rank.png")
        if "residual" in result:
            # Its curve stands alone, so that its part of the result has no names of curves.
            curve = {key: values for key, values in result["residual"].items() if key != "loop"}
            alone = {**result, "residual": {"loop": result["residual"]["loop"], "residual": curve}}
            _curves(alone, "residual", ("residual",), f"fixed-point residual {_RESIDUAL}", folder)


def _curves(
    result: Mapping[str, Any], part: str, names: tuple[str, ...], what: str, folder: Path
) -> None:
    """One part's curves over all loops, on a log scale."""
    figure = Figure()
    axes = figure.subplots()
    loops = result[part]["loop"]
    shown: dict[str, Curve] = {name: result[part][name] for name in names}
    for index, (name, curve) in enumerate(shown.items()):
        band(axes, loops, curve, _LABELS[name], line(index))
    axes.set_yscale("log")
    _finish(axes, result, what, ", 90 % bands")
    if len(names) > 1:
        legend_beside(axes)
    save(figure, folder / f"{part}.png", _unit(result), loops, shown)


def _cosines(result: Mapping[str, Any], path: Path) -> None:
    """The matrix as a picture; grey where an increment has no direction."""
    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.subplots()
    part = result["cosines"]
    loops, matrix = part["loop"], np.array(part["mean"], dtype=np.float64)
    edges = (loops[0] - 0.5, loops[-1] + 0.5)
    axes.set_facecolor("lightgrey")
    # From red to blue: the colour-blind tell the two apart, and both from white.
    image = axes.imshow(
        matrix, cmap="RdBu", vmin=-1, vmax=1, origin="lower", extent=(*edges, *edges)
    )
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="cosine, mean over tokens and prompts")
    _finish(axes, result, f"increment of {_unit(result)}")
    axes.set_xlabel(f"increment of {_unit(result)}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    columns = {str(loop): column for loop, column in zip(loops, part["mean"], strict=True)}
    save(figure, path, _unit(result), loops, {"cosine": columns})


def _rank(result: Mapping[str, Any], path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    part = result["effective_rank"]
    values = np.array(part["value"], dtype=np.float64)
    axes.plot(part["loop"], values, ".-", linewidth=1.6, color=line(0)["color"])
    most = max((value for value in part["value"] if value is not None), default=1.0)
    axes.set_ylim(0, 1.15 * most)  # the name of b stands above the curve
    axes.set_xlim(-0.5, part["loop"][-1] + 0.5)  # also where prompts do not differ any more
    _finish(axes, result, "effective rank of the states at x,\ncentred at each position")
    shown: dict[str, Curve] = {"effective_rank": {"value": part["value"]}}
    save(figure, path, _unit(result), part["loop"], shown)


def _finish(axes: Axes, result: Mapping[str, Any], what: str, bands: str = "") -> None:
    """What all pictures share: axes, b, and the title above them, with what `bands` are."""
    if result["family"] != "standard":
        mark_loops(axes, result["b"])
    axes.set_xlabel(_unit(result))
    axes.set_ylabel(what)
    whole_numbers(axes)
    assert isinstance(axes.figure, Figure)
    task = result["task"].replace("_", " ")
    axes.figure.suptitle(
        f"{task}, d = {result['dims']}, {result['family']}, {result['prompts']} prompts{bands}"
    )


def _unit(result: Mapping[str, Any]) -> str:
    return "layer" if result["family"] == "standard" else "loop"
