"""The model from outside: sizes, shapes, roles of parameters, what it refuses; prediction i has
seen x_i and the pairs before it, and nothing else: bit for bit; and residual scaling, its formulas
and where it acts."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.models import Model, ModelSpec
from looplab.models.model import residual_scale
from tests.models.small import DIMS, FAMILIES, WAYS, Batch, draw_prompts, make_model, make_spec


@pytest.mark.parametrize(
    ("family", "n_layer", "count"),
    [("looped", 1, 790_272), ("tied", 1, 790_272), ("standard", 12, 9_477_632)],
)
def test_size_of_the_papers_models(family: Any, n_layer: int, count: int) -> None:
    """12 · 256² + 13 · 256 a layer and 512 of the final norm (Yang et al. 2024: 9.48M, 0.79M)."""
    injection: Any = "add" if family == "looped" else "none"
    model = Model(ModelSpec(dims=20, family=family, n_layer=n_layer, injection=injection))
    assert model.backbone_parameters() == count
    assert f"{count:,} parameters" in model.describe()
    outside = 203 * 256 + 21 * 256 + 257  # positions, read-in, read-out
    assert sum(parameter.numel() for parameter in model.parameters()) == count + outside


def test_a_classifier_has_one_more_axis() -> None:
    model, window = make_model(classes=5), 2
    logits = model(draw_prompts(), 3, window, grad_loops=3)
    assert logits.shape == (window, 3, 6, 5)
    assert [p.shape for _, p in model.unroll(draw_prompts(), 3)] == [(3, 6, 5)] * 4
    logits.logsumexp(-1).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", ["looped", "standard", "recurrent", "lanes, coda", "FLT, latent"])
def test_every_parameter_has_its_role(name: str) -> None:
    """By what it is called; layers are counted in the loop alone."""
    model = make_model(name, n_layer=2) if name in FAMILIES else make_model(**WAYS[name])
    roles = model.parameter_roles()
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert roles.keys() == shapes.keys()
    for parameter, role in roles.items():
        assert sum(role.parts) == shapes[parameter][0], parameter
        expected = "matrix"
        for part, kind in (
            *(("bias", "bias"), ("norm", "norm"), ("lane_", "lane")),
            *(("positions", "embedding"), ("read_in.weight", "embedding")),
            *(("read_out.weight", "read_out"), ("inject.", "injection")),
        ):
            if part in parameter and expected in ("matrix", "bias"):
                expected = kind
        assert role.kind == expected, parameter
        in_loop = parameter.startswith("loop.blocks.")
        assert role.layer == (int(parameter.split(".")[2]) if in_loop else None), parameter


def test_counts_that_do_not_fit_are_refused() -> None:
    for loops, window, grad_loops in (
        (0, 1, None),
        (3, 0, None),
        (3, 4, None),
        (3, 2, 1),
        (3, 2, 4),
    ):
        with pytest.raises(ValueError, match="1 <= window <= grad_loops <= loops, got"):
            make_model()(draw_prompts(), loops, window, grad_loops=grad_loops)


def test_inputs_and_outputs_are_no_prompts() -> None:
    prompts = draw_prompts()
    with pytest.raises(ValueError, match=r"reads Prompts\(xs, ys\) as one argument, got a Tensor"):
        make_model()(prompts.xs, prompts.ys)


def test_prompts_that_do_not_fit_are_refused() -> None:
    """Points end with the positions."""
    model = make_model(n_positions=8)
    assert model(draw_prompts(points=8), 2).shape == (1, 3, 8)
    for prompts, match in (
        (draw_prompts(points=9), "9 points"),
        *((draw_prompts(dims=dims), f"inputs of {dims} dimensions") for dims in (2, 4)),
    ):
        with pytest.raises(ValueError, match=match):
            model(prompts, 2)
        with pytest.raises(ValueError, match=match):
            next(model.unroll(prompts, 2))


LINEAR: dict[str, Any] = {"injection": "linear_attention", "n_embd": DIMS, "n_head": 1}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"loops": 0}, "loops"),
        ({"classes": -1}, "classes"),
        (LINEAR | {"classes": 2}, "model.injection"),
        ({"attention": "latent"}, "model.rank"),
        ({"norm": "at_readout", "injection": "multiply", "block": "sandwich"}, "model.injection"),
        ({"block": "sandwich", "block_norm": "post"}, "model.block_norm"),
        ({"rope_base": 500}, "model.rope_base"),
    ],
)
def test_shapes_that_make_no_model_are_refused(changes: dict[str, Any], key: str) -> None:
    """Others are wrong commands, too."""
    with pytest.raises(ConfigError, match=rf"{key} "):
        Model(make_spec(**changes))


POINTS, LOOPS = 8, 3


@pytest.fixture(params=[*FAMILIES, "multiply", *WAYS])
def model(request: pytest.FixtureRequest) -> Model:
    """Each family, looped with the other injection, and every other way to loop."""
    if request.param in FAMILIES:
        return make_model(request.param)
    return make_model(**WAYS.get(request.param, {"injection": "multiply"}))


def predictions(model: Model, prompts: Batch) -> list[Tensor]:
    """Those after every loop, unrolled, and those that a loss sees."""
    unrolled = [prediction for _, prediction in model.unroll(prompts, LOOPS)][1:]
    return [*unrolled, *model(prompts, LOOPS, 1 if model.spec.family == "standard" else 2)]


def test_a_prediction_has_seen_its_input_and_the_pairs_before_it(model: Model) -> None:
    """And nothing else: no later pair, and no other prompt."""
    prompts, j = draw_prompts(points=POINTS), 3
    before = predictions(model, prompts)
    for part, first in (("xs", j), ("ys", j + 1)):
        altered = Batch(prompts.xs.clone(), prompts.ys.clone())
        getattr(altered, part)[1, j] += 1
        for one, other in zip(before, predictions(model, altered), strict=True):
            assert torch.all(one[1, first:] != other[1, first:])
            assert torch.equal(one[1, :first], other[1, :first])
            assert torch.equal(one[[0, 2]], other[[0, 2]])
    xs, ys = prompts.xs.requires_grad_(), prompts.ys.requires_grad_()
    model(Batch(xs, ys), LOOPS, grad_loops=LOOPS)[..., j].sum().backward()
    assert xs.grad is not None
    assert ys.grad is not None
    assert torch.all(xs.grad[:, : j + 1] != 0)
    assert torch.all(ys.grad[:, :j] != 0)
    assert torch.all(xs.grad[:, j + 1 :] == 0)
    assert torch.all(ys.grad[:, j:] == 0)


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
