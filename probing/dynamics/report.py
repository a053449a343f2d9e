"""The dynamics of a run as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from reloop.conf.schema import TableFormat
from reloop.evaluation.bootstrap import Band
from reloop.evaluation.results import unit
from reloop.evaluation.tables import Table, document

from .results import Contraction, Dynamics


def report(result: Dynamics, form: TableFormat = "text") -> str:
    """A table of the measurements at a few loops; and the Jacobian at the last one."""
    axis, loops = unit(result["family"]), _handful(result["b"], result["loops"])
    rows = []
    for label, part_loops, values in _measurements(result):
        if part_loops[-1] < loops[-1]:
            label = f"{label}, to {axis} {part_loops[-1]}"
        texts = ["–" if value is None else f"{value:.3g}" for value in values]
        by_loop = dict(zip(part_loops, texts, strict=True))
        rows.append([label, *(by_loop.get(loop, "") for loop in loops)])
    table = Table([axis, *map(str, loops)], rows)
    return document([*result.get("remarks", []), table, "", *_sentences(result, axis)], form)


def _measurements(result: Dynamics) -> Iterator[tuple[str, list[int], list[float | None]]]:
    """Name, loops and values of each row: means, medians, or the rank itself."""
    norm, change, rank = result["norm"], result["change"], result["effective_rank"]
    if result["family"] != "standard":
        # A standard model's norm is at the read-out, so its two states are the same.
        yield "norm before the LayerNorm", norm["loop"], norm["raw"]["mean"]
    yield "norm of the state", norm["loop"], norm["stream"]["mean"]
    yield "change", change["loop"], change["absolute"]["mean"]
    yield "change / norm", change["loop"], change["relative"]["mean"]
    if "residual" in result:
        residual = result["residual"]
        yield "fixed-point residual", residual["loop"], residual["absolute"]["mean"]
        yield "residual / norm", residual["loop"], residual["relative"]["mean"]
        yield "  of the median prompt", residual["loop"], residual["over_prompts"]["median"]
    yield "effective rank", rank["loop"], rank["value"]


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


def _factors(contraction: Contraction) -> Iterator[str]:
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
