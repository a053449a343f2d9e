"""The dynamics of a run as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ROWS = (
    ("norm", "raw", "norm before the LayerNorm"),
    ("norm", "stream", "norm of the state"),
    ("change", "absolute", "change"),
    ("change", "relative", "change / norm"),
    ("residual", "absolute", "fixed-point residual"),
    ("residual", "relative", "residual / norm"),
    ("residual", "over_prompts", "  of the median prompt"),
    ("effective_rank", None, "effective rank"),
)


def report(result: Mapping[str, Any]) -> str:
    """A table of the measurements at a few loops; and the Jacobian at the last one."""
    unit = "layer" if result["family"] == "standard" else "loop"
    loops = _handful(result["b"], result["loops"])
    rows = [[unit, *map(str, loops)]]
    for part, name, label in _ROWS:
        # A standard model's norm is at the read-out, so its two states are the same.
        if part in result and not (name == "raw" and unit == "layer"):
            values = result[part][name] if name else result[part]
            part_loops = result[part]["loop"]
            if part_loops[-1] < loops[-1]:
                label = f"{label}, to {unit} {part_loops[-1]}"
            rows.append([label, *_at(loops, part_loops, values)])
    width = max(len(row[0]) for row in rows)
    lines = [row[0].ljust(width) + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
    return "\n".join([*result.get("remarks", []), *lines, "", *_sentences(result, unit)])


def _sentences(result: Mapping[str, Any], unit: str) -> Iterator[str]:
    """The single values: mean cosine, share of converged prompts, the Jacobian's factors."""
    pairs, last = result["cosines"]["pairs"], result["cosines"]["loop"][-1]
    if pairs:
        yield f"cosine of two different increments up to {unit} {last}, mean: {_span(pairs)}"
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
    for name, meaning in (
        ("spectral_norm", "the most that one loop stretches a small difference"),
        ("spectral_radius", "what each loop leaves of one in the long run"),
    ):
        factor = contraction[name]
        yield f"  {name.replace('_', ' ')}, {meaning}: {_span(factor)}"
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


def _at(loops: Sequence[int], part_loops: Sequence[int], values: Mapping[str, Any]) -> list[str]:
    """The means (medians, values) of a part, given at `part_loops`, at `loops` as text; a dash for
    None, empty for a loop that the part lacks."""
    (name,) = (name for name in ("mean", "median", "value") if name in values)
    texts = ["–" if value is None else f"{value:.3g}" for value in values[name]]
    return [dict(zip(part_loops, texts, strict=True)).get(loop, "") for loop in loops]


def _span(curve: Mapping[str, Any]) -> str:
    return f"{curve['mean'][0]:.3g} (90 %: {curve['low'][0]:.3g} to {curve['high'][0]:.3g})"
