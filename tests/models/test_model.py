"""The model from outside: sizes, shapes, roles of parameters, what it refuses; and prediction i has
seen x_i and the pairs before it, and nothing else: bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.models import Model, ModelSpec
from looplab.models.blocks.parameters import Role
from tests.models.small import FAMILIES, WAYS, Batch, draw_prompts, make_model, make_spec


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


@pytest.mark.parametrize("window", [1, 3, 5])
def test_predictions_of_the_window_newest_last(window: int) -> None:
    model = make_model()
    predictions = model(draw_prompts(), loops=5, window=window)
    assert predictions.shape == (window, 3, 6)
    assert predictions.dtype == torch.float32
    for place, loops in enumerate(range(5 - window + 1, 6)):
        torch.testing.assert_close(predictions[place], model(draw_prompts(), loops)[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_classifier_has_one_more_axis(family: str) -> None:
    model = make_model(family, classes=5)
    window = 1 if family == "standard" else 2
    logits = model(draw_prompts(), 3, window, grad_loops=3)
    assert logits.shape == (window, 3, 6, 5)
    assert [p.shape for _, p in model.unroll(draw_prompts(), 3)] == [(3, 6, 5)] * 4
    logits.logsumexp(-1).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("injection", ["add", "multiply"])
def test_a_prefix_leaves_the_model_trainable(injection: str) -> None:
    """A few Adam steps through a prefix: every parameter gets a gradient and the loss falls."""
    model, prompts = Model(make_spec(injection=injection)), draw_prompts(batch=8)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=3e-3), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (model(prompts, loops=6, window=2) - prompts.ys).square().mean()
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_has_its_role(family: str) -> None:
    model = make_model(family, n_layer=2)
    roles = model.parameter_roles()
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert roles.keys() == shapes.keys()
    by_role = {
        role.kind: {name for name in roles if roles[name].kind == role.kind}
        for role in roles.values()
    }
    matrices = ("qkv", "projection", "expand", "contract")
    assert by_role["matrix"] == {
        f"loop.blocks.{i}.{name}.weight" for i in range(2) for name in matrices
    }
    assert by_role["embedding"] == {"read_in.weight", "loop.positions"}
    assert by_role["read_out"] == {"read_out.weight"}
    assert by_role["norm"] == {n for n in roles if "norm" in n}
    assert by_role["bias"] == {n for n in roles if n.endswith("bias") and "norm" not in n}
    assert all(len(shapes[name]) == 1 for name in by_role["norm"] | by_role["bias"])
    for name, role in roles.items():
        assert sum(role.parts) == shapes[name][0]
        assert (len(role.parts) == 3) == name.endswith("qkv.weight")
        in_loop = name.startswith("loop.blocks")
        assert role.layer == (int(name.split(".")[2]) if in_loop else None)


@pytest.mark.parametrize("name", WAYS)
def test_every_way_s_parameters_have_their_roles(name: str) -> None:
    """By what they are called; layers are counted in the loop alone."""
    model = make_model(**WAYS[name])
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


def test_the_roles_of_what_only_some_loops_have() -> None:
    roles = make_model(**WAYS["lanes, coda"]).parameter_roles()
    lanes = {name for name, role in roles.items() if role.kind == "lane"}
    assert lanes == {f"loop.lane_{name}" for name in ("read", "mix", "write")}
    roles = make_model(**WAYS["recurrent"]).parameter_roles()
    assert roles["loop.inject.weight"] == Role("injection", (16,))
    assert roles["loop.prelude.0.attention.qkv.weight"] == Role("matrix", (16, 16, 16))
    assert roles["loop.coda.0.mlp.expand.weight"] == Role("matrix", (48, 48))
    assert roles["loop.blocks.1.attention.qkv.weight"] == Role("matrix", (16, 16, 16), 1)
    assert roles["loop.norm_in.weight"] == roles["loop.norm_loop.weight"] == Role("norm", (16,))


@pytest.mark.parametrize(
    ("loops", "window", "grad_loops"),
    [(0, 1, None), (3, 0, None), (3, 4, None), (3, 2, 1), (3, 2, 4), (-1, -1, None)],
)
def test_counts_that_do_not_fit_are_refused(loops: int, window: int, grad_loops: Any) -> None:
    with pytest.raises(ValueError, match="1 <= window <= grad_loops <= loops, got"):
        make_model()(draw_prompts(), loops, window, grad_loops=grad_loops)


def test_points_end_with_the_positions() -> None:
    model = make_model(n_positions=8)
    assert model(draw_prompts(points=8), 2).shape == (1, 3, 8)
    with pytest.raises(ValueError, match="9 points, but the model has 8 positions"):
        model(draw_prompts(points=9), 2)
    with pytest.raises(ValueError, match="9 points"):
        next(model.unroll(draw_prompts(points=9), 2))


@pytest.mark.parametrize("dims", [2, 4])
def test_inputs_of_another_width_are_refused(dims: int) -> None:
    with pytest.raises(ValueError, match=f"inputs of {dims} dimensions, but the model reads 3"):
        make_model()(draw_prompts(dims=dims), 2)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"family": "loopd"}, "model.family cannot be 'loopd'; did you mean 'looped'"),
        ({"injection": "subtract"}, "model.injection cannot be 'subtract'; expected one of add"),
        ({"n_embd": 18, "n_head": 4}, "n_embd must be a multiple of model.n_head=4, got 18"),
        ({"n_layer": 0}, "model.n_layer must be at least 1, got 0"),
        ({"loops": 0}, "loops must be at least 1, got 0"),
        ({"classes": -1}, "classes must be at least 0, got -1"),
        ({"block": "gpt3"}, "model.block cannot be 'gpt3'; did you mean 'gpt2'"),
        ({"n_embd": 6, "block": "llama"}, "model.n_head leaves heads of 3 numbers"),
        ({"attention": "grouped", "n_kv": 3}, "model.n_kv must divide model.n_head=2, got 3"),
        ({"attention": "latent"}, "model.rank must be given with model.attention=latent"),
        ({"connectivity": "LT_ia"}, "model.connectivity cannot be 'LT_ia'"),
        ({"norm": "nowhere"}, "model.norm cannot be 'nowhere'"),
        ({"norm": "at_readout", "injection": "concat"}, "forgets the stream at each loop"),
        ({"norm": "at_readout", "injection": "multiply"}, "grows beyond bounds"),
        ({"prelude": -1}, "model.prelude must be at least 0, got -1"),
        ({"lanes": -1}, "model.lanes must be at least 0, got -1"),
    ],
)
def test_shapes_that_make_no_model_are_refused(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Model(make_spec(**changes))


def test_prompts_are_left_alone() -> None:
    prompts = draw_prompts()
    copy = Batch(prompts.xs.clone(), prompts.ys.clone())
    make_model()(prompts, 3)
    assert torch.equal(prompts.xs, copy.xs)
    assert torch.equal(prompts.ys, copy.ys)


POINTS, LOOPS = 8, 3


def all_predictions(model: Model, prompts: Batch) -> Tensor:
    """Predictions after every loop (layer), [loops, B, n]."""
    return torch.stack([prediction for _, prediction in model.unroll(prompts, LOOPS)][1:])


@pytest.fixture(params=[*FAMILIES, "multiply", *WAYS])
def model(request: pytest.FixtureRequest) -> Model:
    """Each family, looped with the other injection, and every other way to loop."""
    if request.param in FAMILIES:
        return make_model(request.param)
    return make_model(**WAYS.get(request.param, {"injection": "multiply"}))


@pytest.mark.parametrize("j", [0, 3, POINTS - 1])
def test_an_input_matters_from_its_own_prediction_on(model: Model, j: int) -> None:
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs.clone(), prompts.ys)
    altered.xs[:, j] += 1
    before, after = all_predictions(model, prompts), all_predictions(model, altered)
    assert torch.equal(before[:, :, :j], after[:, :, :j])
    assert torch.all(before[:, :, j:] != after[:, :, j:])


@pytest.mark.parametrize("j", [0, 3, POINTS - 1])
def test_an_output_matters_after_its_own_prediction(model: Model, j: int) -> None:
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs, prompts.ys.clone())
    altered.ys[:, j] += 1
    before, after = all_predictions(model, prompts), all_predictions(model, altered)
    assert torch.equal(before[:, :, : j + 1], after[:, :, : j + 1])
    assert torch.all(before[:, :, j + 1 :] != after[:, :, j + 1 :])


def test_the_trained_predictions_are_as_causal(model: Model) -> None:
    """The same through `forward`, whose window is what the loss sees."""
    window = 1 if model.spec.family == "standard" else 2
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs.clone(), prompts.ys.clone())
    altered.ys[:, 4:] = 100
    altered.xs[:, 5:] = 100
    before, after = (model(batch, LOOPS, window) for batch in (prompts, altered))
    assert torch.equal(before[:, :, :5], after[:, :, :5])
    assert torch.all(before[:, :, 5:] != after[:, :, 5:])


def test_gradients_are_causal(model: Model) -> None:
    """Prediction 3 has no derivative with respect to y_3 or anything later."""
    prompts = draw_prompts(points=POINTS)
    xs, ys = prompts.xs.requires_grad_(), prompts.ys.requires_grad_()
    model(Batch(xs, ys), LOOPS, grad_loops=LOOPS)[..., 3].sum().backward()
    assert xs.grad is not None
    assert ys.grad is not None
    assert torch.all(xs.grad[:, :4] != 0)
    assert torch.all(ys.grad[:, :3] != 0)
    assert torch.all(xs.grad[:, 4:] == 0)
    assert torch.all(ys.grad[:, 3:] == 0)


def test_prompts_of_a_batch_do_not_see_each_other(model: Model) -> None:
    prompts = draw_prompts(points=POINTS)
    altered = Batch(prompts.xs.clone(), prompts.ys.clone())
    altered.xs[1] = altered.ys[1] = 100
    before, after = all_predictions(model, prompts), all_predictions(model, altered)
    assert torch.equal(before[:, [0, 2]], after[:, [0, 2]])
    assert not torch.equal(before[:, 1], after[:, 1])
