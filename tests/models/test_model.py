"""The model from outside: sizes, shapes, roles of parameters, what it refuses; and prediction i has
seen x_i and the pairs before it, and nothing else: bit for bit."""

from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.models import Model, ModelSpec
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
