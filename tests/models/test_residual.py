"""Residual scaling: its formulas by number, which loops it is for, and where it acts."""

import math
from typing import Any

import pytest
import torch

from looplab.models import Model
from looplab.models.model import residual_scale
from tests.models.small import WAYS, draw_prompts, make_model, make_spec


@pytest.mark.parametrize(
    ("scaling", "loops", "layers", "factor", "expected"),
    [
        ("none", 16, 4, 1.0, 1.0),
        ("sqrt", 16, 4, 1.0, 0.25),
        ("linear", 16, 4, 1.0, 0.0625),
        ("factored", 16, 4, 1.0, 0.03125),
        ("factored", 1, 12, math.sqrt(12), 1.0),  # as without, at the reference depth of 12
        ("factored", 8, 48, 3.0, 3 / (8 * math.sqrt(48))),
        ("deepnorm", 4, 2, 1.0, 1 / 2),
        ("deeploop", 4, 2, 1.0, 1 / 4),
    ],
)
def test_the_formulas(
    scaling: str, loops: int, layers: int, factor: float, expected: float
) -> None:
    assert residual_scale(scaling, loops, layers, factor) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("family", "layers", "scaling", "factor", "own", "at_2"),
    [
        ("looped", 3, "none", 1.0, 1.0, 1.0),
        ("looped", 3, "sqrt", 1.0, 8**-0.5, 2**-0.5),
        ("looped", 3, "linear", 1.0, 1 / 8, 1 / 2),
        ("looped", 3, "factored", 0.5, 0.5 / 8 / math.sqrt(3), 0.5 / 2 / math.sqrt(3)),
        ("standard", 4, "none", 1.0, 1.0, 1.0),
        ("standard", 4, "sqrt", 1.0, 0.5, 0.5),
        ("standard", 4, "linear", 1.0, 0.25, 0.25),
        ("standard", 4, "factored", 0.5, 0.5 * 0.5, 0.5 * 0.5),
    ],
)
def test_a_model_s_scale(
    family: str, layers: int, scaling: str, factor: float, own: float, at_2: float
) -> None:
    """Of the loops that it is trained to make, unless others are asked for; a standard model's is
    of its layers, whatever loops it is said to make: n layers are n branches, made once."""
    spec = make_spec(
        family, n_layer=layers, loops=8, residual_scaling=scaling, residual_factor=factor
    )
    model = Model(spec)
    assert model.residual_scale() == pytest.approx(own)
    assert model.residual_scale(2) == pytest.approx(at_2)


@pytest.mark.parametrize("block", ["gpt2", "llama"])
@pytest.mark.parametrize(("scaling", "beta"), [("deepnorm", 0.5), ("deeploop", 0.25)])
def test_factors_of_post_norm_shrink_values_mlp_and_outputs(
    block: str, scaling: str, beta: float
) -> None:
    """Two layers in one loop are 16 = 8 n; queries and keys stay."""
    shape = {"n_layer": 2, "loops": 1, "block": block, "block_norm": "post"}
    new, plain = (
        Model(make_spec(residual_scaling=each, **shape)).loop.blocks for each in (scaling, "none")
    )
    for name, weight in new.named_parameters():
        ours, theirs = weight.detach(), plain.get_parameter(name).detach()
        if name.endswith("qkv.weight"):
            asked = 2 * len(ours) // 3
            assert torch.equal(ours[:asked], theirs[:asked])
            ours, theirs = ours[asked:], theirs[asked:]
        expected = theirs if "norm" in name or name.endswith("bias") else beta * theirs
        torch.testing.assert_close(ours, expected)


SCALED = [
    {"injection": "add"},
    {"injection": "none", "norm": "at_readout"},
    {"connectivity": "FLT", "block": "flt"},
]


@pytest.mark.parametrize("changes", SCALED)
def test_more_loops_than_trained_do_not_change_the_map(changes: dict[str, Any]) -> None:
    """The first b of 2 b loops are b loops, to the bit."""
    model = make_model(**changes, loops=3, residual_scaling="linear")
    long, short = (list(model.unroll(draw_prompts(), loops)) for loops in (6, 3))
    for (state, prediction), (other, expected) in zip(long, short, strict=False):
        assert torch.equal(state.stream, other.stream)
        assert torch.equal(prediction, expected)
    torch.testing.assert_close(model(draw_prompts(), 6, 6)[:3], model(draw_prompts(), 3, 3))


@pytest.mark.parametrize("scaling", ["none", "linear"])
@pytest.mark.parametrize("changes", [SCALED[0], SCALED[1]])
def test_the_loops_of_the_scale_can_be_given(changes: dict[str, Any], scaling: str) -> None:
    """As where training is at fewer loops than at its end."""
    two, four = (make_model(**changes, loops=R, residual_scaling=scaling) for R in (2, 4))
    prompts = draw_prompts()
    expected = four(prompts, 3, 2)
    assert torch.equal(two(prompts, 3, 2, scale_loops=4), expected)
    assert torch.equal(four(prompts, 3, 2, scale_loops=None), expected)
    assert torch.equal(two(prompts, 3, 2), expected) == (scaling == "none")


def test_layers_outside_the_loop_are_not_scaled() -> None:
    """With a loop that writes next to nothing the prelude and the coda are as ever."""
    model = make_model(**WAYS["recurrent"] | {"residual_scaling": "linear", "loops": 10**9})
    other = make_model(**WAYS["recurrent"])
    with torch.no_grad():
        for name, weight in other.loop.blocks.named_parameters():
            if name.endswith(("projection.weight", "contract.weight")):
                weight.zero_()
    torch.testing.assert_close(model(draw_prompts(), 3), other(draw_prompts(), 3))
