"""The floor of a step on a CPU: this machine's own products, at the shapes of the step.

The floor is the time of the products of all blocks alone, forward and backward for inputs and
weights, as benchmarks/cost.py counts them, with attention's FLOPs at the same rate. Each product
counts as the faster of PyTorch's and oneDNN's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from reloop.models.cpu import CpuOperations, keep_memory

from .cost import Work

_linear = CpuOperations().linear
_REPEATS = 3  # of each product, of which the fastest counts
SOURCE = (
    f"products of PyTorch and oneDNN at the step's shapes, the best of {_REPEATS} in each turn, "
    "the median of the turns; attention at their rate"
)


@torch.no_grad()
def measured_floor(work: Work, precision: str) -> float:
    """Seconds of a step's arithmetic: of processor time on one thread, else of the clock."""
    keep_memory()
    window = _block_seconds(work, torch.bfloat16 if precision == "bf16" else torch.float32)
    prefix = _block_seconds(work, torch.bfloat16) if precision == "mixed" else window
    without_gradients = work.forwards - work.backwards
    return without_gradients * prefix[0] + work.backwards * sum(window)


def _block_seconds(work: Work, dtype: torch.dtype) -> tuple[float, float]:
    """Seconds of one block's arithmetic at all tokens, forward and backward."""
    width = work.width
    # qkv, projection, expand and contract.
    sizes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    seconds = [_product_seconds(work.tokens, *pair, dtype) for pair in sizes]
    forward, backward = (sum(part) for part in zip(*seconds, strict=True))
    once = replace(work, forwards=1, backwards=0)
    attention = once.attention_flops() / once.product_flops
    # Backward there are 2.5 times the FLOPs of attention, and twice those of the products.
    return forward * (1 + attention), backward * (1 + 1.25 * attention)


def _product_seconds(
    tokens: int, inner: int, outer: int, dtype: torch.dtype
) -> tuple[float, float]:
    """Seconds of one product, and of the two products of its backward pass."""
    x, gradient = (torch.ones(tokens, size, dtype=dtype) for size in (inner, outer))
    layer = nn.Linear(inner, outer, bias=False, dtype=dtype)
    back = nn.Linear(outer, inner, bias=False, dtype=dtype)
    forward = _fastest(lambda: _linear(x, layer), lambda: layer(x))
    d_input = _fastest(lambda: _linear(gradient, back), lambda: gradient @ layer.weight)
    d_weight = _fastest(lambda: gradient.T @ x, lambda: x.T @ gradient)
    return forward, d_input + d_weight


def _fastest(*ways: Callable[[], object]) -> float:
    """Seconds of the fastest of all calls."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds = math.inf
    for way in ways * _REPEATS:
        start = clock()
        way()
        seconds = min(seconds, clock() - start)
    return seconds
