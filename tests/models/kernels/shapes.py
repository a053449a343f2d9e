"""Shapes that the kernels' tests go through."""

from collections.abc import Sequence
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


def shapes(*small: Shape, slow: Sequence[Shape] = ()) -> list[Any]:
    """The small ones everywhere, of which some are slow, the paper's on a GPU."""
    described = [(shape, ()) for shape in small] + [(shape, on_a_gpu) for shape in PAPER]
    described += [(shape, pytest.mark.slow) for shape in slow]
    return [pytest.param(shape, marks=m, id="x".join(map(str, shape))) for shape, m in described]


ONE_TOKEN = Shape(1, 1, 32, 2, 1)
UNEVEN = Shape(3, 23, 32, 4, 2)  # 69 rows are no multiple of 8, 16, 32 or 64, nor are 23
NO_POWER_OF_TWO = Shape(2, 5, 96, 4, 1)
EVEN_LENGTH = Shape(2, 6, 64, 2, 3)
