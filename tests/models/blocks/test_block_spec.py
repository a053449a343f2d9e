"""What a block's shape says and refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reloop.models.blocks.spec import BlockSpec


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


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"kind": "gpt3"}, "kind must be gpt2, llama or flt, got 'gpt3'"),
        ({"attention": "flat"}, "must be full, grouped, latent or sliding, got 'flat'"),
        ({"n_head": 5}, "n_embd must be a multiple of n_head, got 64 and 5"),
        ({"n_head": 0}, "at least 1, got 64, 0 and 1"),
        ({"n_layer": 0}, "at least 1, got 64, 4 and 0"),
        ({"n_embd": 12, "kind": "llama"}, r"llama block .* must be even, got 12 / 4 = 3"),
        ({"n_embd": 4, "kind": "flt"}, r"flt block .* must be even, got 4 / 4 = 1"),
        ({"attention": "grouped"}, "n_kv must divide n_head, got 0 and 4"),
        ({"attention": "grouped", "n_kv": 3}, "n_kv must divide n_head, got 3 and 4"),
        ({"attention": "grouped", "n_kv": 8}, "n_kv must divide n_head, got 8 and 4"),
        ({"attention": "latent"}, "rank of at least 1, got 0"),
        ({"attention": "sliding", "length": 64}, "letters S .* and L .*, got ''"),
        ({"attention": "sliding", "length": 64, "pattern": "SsL"}, "got 'SsL'"),
        ({"attention": "sliding", "pattern": "SL", "length": 3}, "at least 4, got 3"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], match: str) -> None:
    shape: dict[str, Any] = {"n_embd": 64, "n_head": 4} | changes
    with pytest.raises(ValueError, match=match):
        BlockSpec(**shape)


def test_heads_of_odd_width_are_fine_where_nothing_turns() -> None:
    assert BlockSpec(12, 4).head_size == 3
