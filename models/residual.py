"""Residual scaling: the factor of each residual branch of a looped block.

ε = residual_scale("linear", loops=8, layers=2)      # 1/8
"""

from __future__ import annotations

import math

RESIDUAL_SCALINGS = ("none", "sqrt", "linear", "factored")


def residual_scale(scaling: str, loops: int, layers: int, factor: float = 1.0) -> float:
    """ε for R `loops` of U `layers` (arXiv 2606.18524): none 1, sqrt 1/√R, linear 1/R, factored
    λ/(R√U) with λ = `factor`. Raises ValueError for another name, and for counts under 1."""
    if min(loops, layers) < 1:
        raise ValueError(f"loops and layers must be at least 1, got {loops} and {layers}")
    if scaling == "none":
        return 1.0
    if scaling == "sqrt":
        return 1 / math.sqrt(loops)
    if scaling == "linear":
        return 1 / loops
    if scaling == "factored":
        return factor / (loops * math.sqrt(layers))
    raise ValueError(
        f"residual scaling must be {', '.join(RESIDUAL_SCALINGS[:-1])} or "
        f"{RESIDUAL_SCALINGS[-1]}, got {scaling!r}"
    )
