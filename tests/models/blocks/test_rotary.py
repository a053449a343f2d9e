"""Rotary positions that turn the other way, by -theta: the same functions of other weights."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.plain_blocks import draw_stream, drawn_block, plain_block, small_spec


def _swapped(rows: Tensor, size: int) -> Tensor:
    """Rows of heads of `size`, with the two halves of each head in the other order."""
    return rows.unflatten(0, (-1, 2, size // 2)).flip(1).flatten(0, 2)


@pytest.mark.parametrize(
    ("kind", "attention"), product(("llama", "flt"), ("full", "grouped", "latent"))
)
def test_weights_of_the_other_direction_become_ours_by_swapping_halves(
    kind: str, attention: str
) -> None:
    """Queries and keys of nanochat-type code turn by -theta. With the halves of each of their heads
    swapped, its weights give the same stream here."""
    spec = small_spec(kind, attention)
    block, x = drawn_block(spec), draw_stream(1, 6, spec.n_embd)
    # A position counted backwards turns the other way; with the mask nothing else depends on it.
    seen, backwards = np.tri(6, dtype=np.bool_), [-i for i in range(6)]
    theirs = plain_block(spec, block, x[0].numpy(), positions=backwards, mask=seen)
    before = block(x)
    with torch.no_grad():
        for name, weight in block.named_parameters():
            if name in ("attention.qkv.weight", "attention.query.weight", "attention.up.weight"):
                # Values stand last, in every kind of attention that has them in one matrix.
                values = 0 if "query" in name else spec.kv_heads * spec.head_size
                turned = len(weight) - values
                weight[:turned] = _swapped(weight[:turned], spec.head_size)
    np.testing.assert_allclose(block(x)[0].detach(), theirs, rtol=0, atol=1e-10)
    assert (before[0] - block(x)[0]).abs().max() > 1e-3
