"""What all claims of arXiv 2311.12424 have in common.

@of_paper("fig02_…", "…", figure="Figure 2", quantity="…", line=1.5, holds_if="below")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ..claim import Estimator, claim

# A ratio of errors that counts as no difference: curves a tenth apart lie on each other in the
# paper's figures, whose axes span one to four decades.
NO_WORSE = 1.1


def of_paper(
    name: str,
    sentence: str,
    *,
    figure: str,
    quantity: str,
    line: float,
    holds_if: Literal["above", "below"],
    published: str = "",
    steps: int = 500_000,
    size: str = "d = 20",
) -> Callable[[Estimator], Estimator]:
    """`claim` with the paper's source, steps and size."""
    return claim(
        name,
        sentence,
        source=f"arXiv 2311.12424, {figure}",
        quantity=quantity,
        line=line,
        holds_if=holds_if,
        published=published,
        published_steps=steps,
        published_size=size,
    )
