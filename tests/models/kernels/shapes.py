"""Shapes that the kernels' tests go through."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch


class Shape(NamedTuple):
    """Prompts of `length` tokens, `uses` times; the paper's width and heads unless told."""

    prompts: int
    length: int
    width: int = 256
    heads: int = 8
    uses: int = 2


# A prompt of n points has 2 n - 1 tokens, or 2 n where it is unrolled.
PAPER = [Shape(64, 81), Shape(64, 201)]  # 41 and 101 points
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="too large to interpret")


def shapes(*small: Shape) -> list[Any]:
    """The small ones everywhere, the paper's on a GPU."""
    described = [(shape, ()) for shape in small] + [(shape, on_a_gpu) for shape in PAPER]
    return [pytest.param(shape, marks=m, id="x".join(map(str, shape))) for shape, m in described]


ONE_TOKEN = Shape(1, 1, 32, 2, 1)
UNEVEN = Shape(3, 23, 32, 4, 2)  # 69 rows are no multiple of 8, 16, 32 or 64, nor are 23
NO_POWER_OF_TWO = Shape(2, 5, 96, 4, 1)
EVEN_LENGTH = Shape(2, 6, 64, 2, 3)
