"""The dynamics of a run as panels and as text for the terminal: norms, changes, cosines between
increments, effective rank and, if all loops are the same, the distance from a fixed point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Band
from looplab.evaluation.panel import Curve, Panel
from looplab.evaluation.results import unit
from looplab.evaluation.tables import Table, document

from ..results import Dynamics


def panels(result: Dynamics) -> list[Panel]:
    """Norm, change, fixed-point residual, effective rank and cosines by loop or layer."""
    axis, b = unit(result["family"]), None if result["family"] == "standard" else result["b"]

    def curve(label: str, part: str, name: str) -> Curve:
        return Curve.of(label, result["style"], result[part][name], name=name, b=b)  # type: ignore[literal-required]

    def panel(
        name: str, title: str, y_label: str, curves: Sequence[Curve], log: str = "y"
    ) -> Panel:
        loops = result[name]["loop"]  # type: ignore[literal-required]
        return Panel(name, title, axis, y_label, loops, curves, log=log)

    norms = [curve("norm of the state", "norm", "stream")]
    if result["family"] != "standard":
        # A standard model's norm is at the read-out, so its two states are the same.
        norms.insert(0, curve("norm before the LayerNorm", "norm", "raw"))
    found = [
        panel("norm", f"Norm by {axis}", "norm of a token's state", norms),
        panel(
            "change", f"Change over a {axis}", "‖Yₜ − Yₜ₋₁‖, and the same over ‖Yₜ‖",
            [curve("change", "change", "absolute"), curve("change / norm", "change", "relative")],
        ),
    ]  # fmt: skip
    if "residual" in result:
        # If some prompts converge and others do not, the others dominate the mean.
        over = result["residual"]["over_prompts"]
        median = Curve(
            label="residual / norm, median prompt", kind="median", name="median", b=b,
            mean=over["median"], low=over["percentile_5"], high=over["percentile_95"],
        )  # fmt: skip
        means = [
            curve("fixed-point residual", "residual", "absolute"),
            curve("residual / norm", "residual", "relative"),
        ]
        title = "Fixed-point residual (median prompt: 5 to 95 % of prompts)"
        y_label = "‖M(Yₜ) − Yₜ‖, and the same over ‖Yₜ‖"
        found.append(panel("residual", title, y_label, [*means, median]))
    rank, cosines = result["effective_rank"], result["cosines"]
    alike = ", none where all are alike" if None in rank["value"] else ""
    still = any(value is None for row in cosines["mean"] for value in row)
    grey = ", grey where converged" if still else ""
    increment, style = f"increment of {axis}", result["style"]
    return [
        *found,
        Panel(
            "effective_rank", f"States at x, centred at each position{alike}", axis,
            "effective rank", rank["loop"],
            [Curve(label="", kind=style, mean=rank["value"], name="effective_rank", b=b)],
            limits=(0, None),
        ),
        Panel(  # the curve without values marks b
            "increment_cosines", f"Cosines of increments, mean over tokens and prompts{grey}",
            increment, increment, cosines["loop"], [Curve(label="", kind=style, mean=[], b=b)],
            matrix=cosines["mean"],
        ),
    ]  # fmt: skip


def report(result: Dynamics, form: TableFormat = "text") -> str:
    """A table of the curves at a few loops; and the Jacobian at the last one."""
    axis, loops = unit(result["family"]), _handful(result["b"], result["loops"])
    rows = []
    for panel in panels(result):
        for curve in filter(lambda curve: curve.mean, panel.curves):
            label, last = curve.label or panel.y_label, panel.x[-1]
            label += "" if last == loops[-1] else f", to {axis} {last}"
            texts = ["–" if value is None else f"{value:.3g}" for value in curve.mean]
            by_loop = dict(zip(panel.x, texts, strict=True))
            rows.append([label, *(by_loop.get(loop, "") for loop in loops)])
    table = Table([axis, *map(str, loops)], rows)
    return document([*result.get("remarks", []), table, "", *_sentences(result, axis)], form)


def _sentences(result: Dynamics, axis: str) -> Iterator[str]:
    """The single values: mean cosine, share of converged prompts, the Jacobian's factors."""
    pairs, last = result["cosines"]["pairs"], result["cosines"]["loop"][-1]
    if pairs:
        yield f"cosine of two different increments up to {axis} {last}, mean: {_span(pairs)}"
    if "residual" in result:
        converged = result["residual"]["at_rest"]
        yield (
            f"share of prompts converged by loop {result['loops']} (residual / norm below "
            f"{converged['below']:g}): {_span(converged)}"
        )
    if "contraction" in result:
        yield from _factors(result["contraction"])


def _factors(contraction: Mapping[str, Any]) -> Iterator[str]:
    yield f"the Jacobian of one loop at loop {contraction['loop']}:"
    norm = "spectral norm, the most that one loop stretches a small difference"
    radius = "spectral radius, what each loop leaves of one in the long run"
    for name, factor in (
        (norm, contraction["spectral_norm"]),
        (radius, contraction["spectral_radius"]),
    ):
        yield f"  {name}: {_span(factor)}"
        yield (
            f"    {factor['iterations']} iterations, of which the last eight changed it by at most "
            f"{factor['remaining_change']:.0e} of itself"
        )
    yield f"  share of prompts with a spectral radius below 1: {_span(contraction['below_one'])}"


def _handful(b: int, last: int) -> list[int]:
    """The read-in, the first loops, around b and beyond it."""
    if last < 10:
        return list(range(last + 1))
    return sorted({0, 1, 2, b // 2, b, 2 * b, 3 * b, last} & set(range(last + 1)))


def _span(curve: Band) -> str:
    return f"{curve['mean'][0]:.3g} (90 %: {curve['low'][0]:.3g} to {curve['high'][0]:.3g})"
