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
    """What is measured by loop, at a handful of them; what one more loop does at the last."""
    unit = "layer" if result["family"] == "standard" else "loop"
    loops = _handful(result["b"], result["loops"])
    rows = [[unit, *map(str, loops)]]
    for part, name, label in _ROWS:
        # A standard model's norm stands at the read-out: its two states are one.
        if part in result and not (name == "raw" and unit == "layer"):
            values = result[part][name] if name else result[part]
            known = result[part]["loop"]
            if known[-1] < loops[-1]:
                label = f"{label}, to {unit} {known[-1]}"
            rows.append([label, *_at(loops, known, values)])
    width = max(len(row[0]) for row in rows)
    lines = [row[0].ljust(width) + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
    return "\n".join([*result.get("remarks", []), *lines, "", *_sentences(result, unit)])


def _sentences(result: Mapping[str, Any], unit: str) -> Iterator[str]:
    """What has one value: angles, how many prompts rest, and what the Jacobian says."""
    pairs, last = result["cosines"]["pairs"], result["cosines"]["loop"][-1]
    if pairs:
        yield f"cosine of two different increments up to {unit} {last}, mean: {_span(pairs)}"
    if "residual" in result:
        rest = result["residual"]["at_rest"]
        yield (
            f"share of prompts converged by loop {result['loops']} (residual / norm below "
            f"{rest['below']:g}): {_span(rest)}"
        )
    if "contraction" in result:
        yield from _factors(result["contraction"])


def _factors(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"the Jacobian of one loop at loop {found['loop']}:"
    for name, meaning in (
        ("spectral_norm", "the most that one loop stretches a small difference"),
        ("spectral_radius", "what each loop leaves of one in the long run"),
    ):
        factor = found[name]
        yield f"  {name.replace('_', ' ')}, {meaning}: {_span(factor)}"
        yield (
            f"    {factor['iterations']} iterations, of which the last eight changed it by at most "
            f"{factor['remaining_change']:.0e} of itself"
        )
    yield f"  share of prompts with a spectral radius below 1: {_span(found['below_one'])}"


def _handful(b: int, last: int) -> list[int]:
    """The read-in, the first loops, around b and beyond it."""
    if last < 10:
        return list(range(last + 1))
    return sorted({0, 1, 2, b // 2, b, 2 * b, 3 * b, last} & set(range(last + 1)))


def _at(loops: Sequence[int], known: Sequence[int], values: Mapping[str, Any]) -> list[str]:
    """The means (or what stands for them) at these loops as text; a dash where there is none,
    nothing beyond those that are known."""
    (name,) = (name for name in ("mean", "median", "value") if name in values)
    texts = ["–" if value is None else f"{value:.3g}" for value in values[name]]
    return [dict(zip(known, texts, strict=True)).get(loop, "") for loop in loops]


def _span(curve: Mapping[str, Any]) -> str:
    return f"{curve['mean'][0]:.3g} (90 %: {curve['low'][0]:.3g} to {curve['high'][0]:.3g})"
