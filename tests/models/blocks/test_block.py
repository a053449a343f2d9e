"""What the shape of a block says: windows, widths, heads."""

from dataclasses import replace

import pytest

from looplab.models.blocks.spec import BlockSpec


def sliding(pattern: str, n_layer: int, length: int = 1024) -> BlockSpec:
    """A sliding attention in 64 wide blocks."""
    return BlockSpec(
        64, 4, n_layer=n_layer, kind="flt", attention="sliding", pattern=pattern, length=length
    )


@pytest.mark.parametrize(
    ("pattern", "windows"),
    [("SSSL", [256, 256, 256, None, 256, None]), ("S", [256, 256, 256, 256, 256, None])],
)
def test_the_pattern_is_tiled_and_the_last_layer_sees_all(
    pattern: str, windows: list[int | None]
) -> None:
    spec = sliding(pattern, 6)
    assert [spec.window(layer) for layer in range(6)] == windows
    assert replace(spec, attention="full").window(0) is None
    assert sliding("S", 2, length=203).window(0) == 50  # a quarter, rounded down


def test_a_gated_mlp_has_as_many_parameters_as_another() -> None:
    """2048 for 768 in the paper; rounded up where 8/3 of the width is no multiple of 8."""
    widths = [BlockSpec(d, 4, kind="llama").n_hidden for d in (768, 64, 96)]
    assert widths == [2048, 176, 256]
    assert BlockSpec(96, 4, kind="sandwich").n_hidden == 256
    assert BlockSpec(64, 4, kind="flt").n_hidden == BlockSpec(64, 4).n_hidden == 256
