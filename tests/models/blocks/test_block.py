"""How wide a block's MLP is, where no width is given."""

from looplab.models.blocks.spec import BlockSpec


def test_a_gated_mlp_has_as_many_parameters_as_another() -> None:
    """2048 for 768 in the paper; rounded up where 8/3 of the width is no multiple of 8."""
    widths = [BlockSpec(d, 4, kind="llama").n_hidden for d in (768, 64, 96)]
    assert widths == [2048, 176, 256]
    assert BlockSpec(96, 4, kind="sandwich").n_hidden == 256
    assert BlockSpec(64, 4, kind="flt").n_hidden == BlockSpec(64, 4).n_hidden == 256
