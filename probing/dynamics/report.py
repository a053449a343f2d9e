"""The dynamics of a run as panels and as text for the terminal: norms, changes, cosines between
increments, effective rank and, if all loops are the same, the distance from a fixed point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from looplab.conf.schema import TableFormat
from looplab.evaluation.bootstrap import Band
from looplab.evaluation.panel import Curve, Panel
from looplab.evaluation.results import unit
from looplab.evaluation.tables import Table, document

from ..results import Result


def panels(result: Result) -> list[Panel]:
    """Norm, change, fixed-point residual, effective rank and cosines by loop or layer."""
    axis, style = unit(result["family"]), result["style"]
    b = None if result["family"] == "standard" else result["b"]

    def panel(name: str, title: str, y_label: str, labels: dict[str, str]) -> Panel:
        curves = [
            Curve.of(label, style, result[name][key], name=key, b=b)
            for key, label in labels.items()
        ]
        return Panel(name, title, axis, y_label, result[name]["loop"], curves, log="y")

    norms = {"raw": "norm before the LayerNorm", "stream": "norm of the state"}
    if result["family"] == "standard":
        # A standard model's norm is at the read-out, so its two states are the same.
        del norms["raw"]
    changes = {"absolute": "change", "relative": "change / norm"}
    found = [
        panel("norm", f"Norm by {axis}", "norm of a token's state", norms),
        panel("change", f"Change over a {axis}", "‖Yₜ − Yₜ₋₁‖, and the same over ‖Yₜ‖", changes),
    ]
    if "residual" in result:
        gaps = {"absolute": "fixed-point residual", "relative": "residual / norm"}
        title = "Fixed-point residual (median prompt: 5 to 95 % of prompts)"
        means = panel("residual", title, "‖M(Yₜ) − Yₜ‖, and the same over ‖Yₜ‖", gaps)
        # If some prompts converge and others do not, the others dominate the mean.
        over = result["residual"]["over_prompts"]
        median = Curve(
            label="residual / norm, median prompt", kind="median", name="median", b=b,
            mean=over["median"], low=over["percentile_5"], high=over["percentile_95"],
        )  # fmt: skip
        found.append(replace(means, curves=[*means.curves, median]))
    rank, cosines = result["effective_rank"], result["cosines"]
    alike = ", none where all are alike" if None in rank["value"] else ""
    still = any(value is None for row in cosines["mean"] for value in row)
    grey = ", grey where converged" if still else ""
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
            f"increment of {axis}", f"increment of {axis}", cosines["loop"],
            [Curve(label="", kind=style, mean=[], b=b)], matrix=cosines["mean"],
        ),
    ]  # fmt: skip


def report(result: Result, form: TableFormat = "text") -> str:
    """A table of the curves at a few loops; and the Jacobian at the last one."""
    axis, b, last = unit(result["family"]), result["b"], result["loops"]
    # The read-in, the first loops, around b and beyond it.
    loops = {0, 1, 2, b // 2, b, 2 * b, 3 * b, last} if last >= 10 else range(last + 1)
    shown = sorted(loop for loop in loops if loop <= last)
    rows = []
    for panel in panels(result):
        for curve in panel.curves:
            if not curve.mean:
                continue
            to = "" if panel.x[-1] == last else f", to {axis} {panel.x[-1]}"
            texts = ["–" if value is None else f"{value:.3g}" for value in curve.mean]
            by_loop = dict(zip(panel.x, texts, strict=True))
            label = (curve.label or panel.y_label) + to
            rows.append([label, *(by_loop.get(loop, "") for loop in shown)])
    table = Table([axis, *map(str, shown)], rows)
    return document([*result.get("remarks", []), table, "", *_sentences(result, axis)], form)


def _sentences(result: Result, axis: str) -> Iterator[str]:
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
    if "contraction" not in result:
        return
    contraction = result["contraction"]
    yield f"the Jacobian of one loop at loop {contraction['loop']}:"
    for name, meaning in (
        ("spectral_norm", "spectral norm, the most that one loop stretches a small difference"),
        ("spectral_radius", "spectral radius, what each loop leaves of one in the long run"),
    ):
        factor = contraction[name]
        yield f"  {meaning}: {_span(factor)}"
        yield (
            f"    {factor['iterations']} iterations, of which the last eight changed it by at most "
            f"{factor['remaining_change']:.0e} of itself"
        )
    yield f"  share of prompts with a spectral radius below 1: {_span(contraction['below_one'])}"


def _span(curve: Band) -> str:
    return f"{curve['mean'][0]:.3g} (90 %: {curve['low'][0]:.3g} to {curve['high'][0]:.3g})"
