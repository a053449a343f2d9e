"""The plain block against its formula in NumPy's float64; what a block's shape says and refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from looplab.models.blocks.gpt2 import Block
from looplab.models.blocks.spec import BlockSpec
from tests.models.plain_blocks import draw_stream, drawn_block, plain_block


def make(n_embd: int = 12, n_head: int = 3) -> tuple[BlockSpec, Block]:
    """The plain block's shape, and one with weights that make every part of it count."""
    spec = BlockSpec(n_embd, n_head)
    block = drawn_block(spec)
    assert isinstance(block, Block)
    return spec, block


@pytest.mark.parametrize("scale", [1.0, 0.25, 0.0])
@pytest.mark.parametrize(("n_embd", "n_head", "length"), [(12, 3, 7), (8, 1, 1), (8, 8, 5)])
def test_block_is_the_formula(n_embd: int, n_head: int, length: int, scale: float) -> None:
    (spec, block), stream = make(n_embd, n_head), draw_stream(2, length, n_embd)
    actual = block(stream, scale=scale).detach().numpy()
    expected = [plain_block(spec, block, x, scale=scale) for x in stream.numpy()]
    np.testing.assert_allclose(actual, np.stack(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_mask_says_what_a_token_attends_to(scale: float) -> None:
    """Any mask: also one that looks ahead, and tokens that do not see themselves."""
    (spec, block), stream = make(), draw_stream(2, 7, 12)
    mask = torch.rand(7, 7, generator=torch.Generator().manual_seed(2)) < 0.5
    mask[:, 4] = True  # nobody sees nothing
    assert mask.triu(1).any()
    assert not mask.diagonal().all()
    actual = block(stream, mask=mask, scale=scale).detach().numpy()
    expected = [plain_block(spec, block, x, mask=mask.numpy(), scale=scale) for x in stream.numpy()]
    np.testing.assert_allclose(actual, np.stack(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tokens", [slice(None, None, 2), slice(4, None)])
def test_some_tokens_are_those_of_all(tokens: slice) -> None:
    (_, block), stream = make(), draw_stream(2, 7, 12)
    torch.testing.assert_close(block(stream, tokens=tokens), block(stream)[:, tokens])


def test_scale_is_one_unless_given() -> None:
    (_, block), stream = make(), draw_stream(2, 5, 12)
    assert torch.equal(block(stream), block(stream, scale=1.0))
    assert torch.equal(block(stream, scale=0.0), stream)


def test_block_does_not_change_its_input() -> None:
    (_, block), stream = make(), draw_stream(2, 5, 12)
    before = stream.clone()
    block(stream)
    assert torch.equal(stream, before)


def sliding(pattern: str, n_layer: int, length: int = 1024) -> BlockSpec:
    """A sliding attention in 64 wide blocks."""
    return BlockSpec(
        64, 4, n_layer=n_layer, kind="flt", attention="sliding", pattern=pattern, length=length
    )


@pytest.mark.parametrize(
    ("pattern", "windows"),
    [
        ("SSSL", [256, 256, 256, None, 256, None]),
        ("SL", [256, None, 256, None, 256, None]),
        ("S", [256, 256, 256, 256, 256, None]),
        ("L", [None] * 6),
    ],
)
def test_the_pattern_is_tiled_and_the_last_layer_sees_all(
    pattern: str, windows: list[int | None]
) -> None:
    spec = sliding(pattern, 6)
    assert [spec.window(layer) for layer in range(6)] == windows
    assert replace(spec, attention="full").window(0) is None


def test_a_window_is_a_quarter_rounded_down() -> None:
    assert sliding("S", 2, length=203).window(0) == 50
    assert sliding("S", 2, length=4).window(0) == 1


def test_a_gated_mlp_has_as_many_parameters_as_another() -> None:
    """2048 for 768 in the paper; rounded up where 8/3 of the width is no multiple of 8."""
    widths = [BlockSpec(d, 4, kind="llama").n_hidden for d in (768, 64, 96)]
    assert widths == [2048, 176, 256]
    assert BlockSpec(64, 4, kind="flt").n_hidden == BlockSpec(64, 4).n_hidden == 256


def test_heads_of_odd_width_are_fine_where_nothing_turns() -> None:
    assert BlockSpec(12, 4).head_size == 3
