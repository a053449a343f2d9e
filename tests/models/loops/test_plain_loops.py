"""Whole models against every way to loop in NumPy's float64, over the plain blocks: prompt by
prompt, loop by loop; of `models` only the weights and the names in a shape are used. Unrolling
shows the same predictions as the forward pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from looplab.models import Model, ModelSpec
from looplab.models.loops.loop import LoopState, StepContext
from tests.models.plain_blocks import Array, plain_block, plain_norm
from tests.models.small import FAMILIES, WAYS, Batch, as_double, draw_prompts, make_model


class Plain:
    """A model's parts: read-in, stacks of blocks, norms and read-out."""

    def __init__(self, model: Model) -> None:
        self.spec, self.model = model.spec, model
        self.p = {name: weight.detach().numpy() for name, weight in model.named_parameters()}

    def read_in(self, xs: Array, ys: Array) -> Array:
        """x₁, (y₁, 0, …), x₂, … read in; of pairs (x₁, 0), (x₁, y₁), (x₂, 0), …"""
        rows = []
        for x, y in zip(xs, ys, strict=True):
            tokens = [x, np.array([y] + [0.0] * (len(x) - 1))]
            if self.spec.tokens == "pairs":
                tokens = [np.array([*x, 0.0]), np.array([*x, y])]
            for token in tokens:
                rows.append(self.p["read_in.weight"] @ token + self.p["read_in.bias"])
        return np.stack(rows)

    def placed(self, x: Array) -> Array:
        """All tokens at their learned positions, where there are any."""
        return x + self.p["loop.positions"][: len(x)] if "loop.positions" in self.p else x

    def norm(self, x: Array, name: str = "norm") -> Array:
        """All tokens after a norm of the loop."""
        return np.stack([plain_norm(self.spec.block, row, self.p, f"loop.{name}") for row in x])

    def layer(
        self, index: int, x: Array, scale: float = 1.0, asked: Array | None = None, *,
        stack: str = "blocks",
    ) -> Array:  # fmt: skip
        """One layer of a stack; all but the last may have a window of a quarter of the length."""
        spec, window = self.spec, None
        blocks = list(self.model.loop.get_submodule(stack).children())
        if spec.attention == "sliding" and index < len(blocks) - 1:
            letter = spec.pattern[index % len(spec.pattern)]
            window = (2 * spec.n_positions + 1) // 4 if letter == "S" else None
        block: nn.Module = blocks[index]
        shape = spec.block_spec()
        return plain_block(shape, block, x, window=window, memory=asked, scale=scale)

    def body(self, x: Array, scale: float = 1.0, *, stack: str = "blocks", n: int = 0) -> Array:
        """The layers of a stack one after another."""
        for index in range(n or self.spec.n_layer):
            x = self.layer(index, x, scale, stack=stack)
        return x

    def outside(self, x: Array, stack: str, layers: int) -> Array:
        """A prelude's or a coda's layers, which nothing scales."""
        return self.body(x, stack=stack, n=layers) if layers else x


def plain_predictions(model: Model, prompts: Batch, loops: int) -> Array:
    """Predictions of a float64 model after each loop, [loops, B, n]."""
    plain, spec = Plain(model), model.spec
    with torch.no_grad():
        return np.stack(
            [
                [
                    plain.p["read_out.weight"] @ row[::2].T + plain.p["read_out.bias"]
                    for row in _way(spec)(plain, plain.read_in(xs, ys), loops, _scale(spec))
                ]
                for xs, ys in zip(prompts.xs.numpy(), prompts.ys.numpy(), strict=True)
            ],
            axis=1,
        )[:, :, 0]


def _scale(spec: ModelSpec) -> float:
    """ε of each residual branch, R loops of U layers; of n layers that are made once, n stands for
    R, and where U is asked for it is n itself and R is 1."""
    standard = spec.family == "standard"
    R, U = spec.n_layer if standard else spec.loops, spec.n_layer
    return {
        "none": 1.0,
        "sqrt": R**-0.5,
        "linear": R**-1.0,
        "factored": spec.residual_factor / (1 if standard else R) * U**-0.5,
    }[spec.residual_scaling]


def _way(spec: ModelSpec) -> Callable[[Plain, Array, int, float], list[Array]]:
    if spec.family == "standard":
        return standard
    if spec.connectivity:
        return connected
    if spec.lanes:
        return lanes
    plain = not spec.prelude and not spec.coda
    repeated = spec.injection != "concat" and spec.norm == "in_loop"
    return shared if plain and repeated else recurrent


def standard(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """Layer after layer; the fully looped paper norms what goes in, too."""
    read = []
    x = plain.norm(plain.placed(x)) if plain.spec.block == "flt" else plain.placed(x)
    for t in range(loops):
        x = plain.layer(t, x, scale)
        read.append(plain.norm(x))
    return read


def shared(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """y ← norm(body(y + e)), or y · e, or y; with positions in every loop."""
    injection, read = plain.spec.injection, list[Array]()
    y = {"add": 0 * x, "multiply": 0 * x + 1, "none": x}[injection]
    for _ in range(loops):
        z = {"add": y + x, "multiply": y * x, "none": y}[injection]
        y = plain.norm(plain.body(plain.placed(z), scale))
        read.append(y)
    return read


def connected(plain: Plain, x0: Array, loops: int, scale: float) -> list[Array]:
    """The variants of arXiv 2605.18797, after its published code."""
    name, layers, read = plain.spec.connectivity, plain.spec.n_layer, list[Array]()
    x0 = plain.placed(x0)
    for t in range(loops):
        h = read[-1] if t else None
        x = plain.norm(x0, "norm_in")
        if h is not None and name == "LT":
            x = h
        if h is not None and name == "LT_i":
            x = plain.norm(x0 + h, "norm_in")
        for layer in range(layers):
            asked = h if name == "FLT" or (name == "LT_ai" and layer == 0) else None
            if h is not None and name == "FLT_res":
                x = plain.norm(x + h, "norm_in")
            x = plain.layer(layer, x, scale, asked)
        read.append(plain.norm(x))
    return read


def recurrent(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """The injections of arXiv 2604.21106, or the stream of arXiv 2606.18524 that runs on, or that
    of arXiv 2502.05171, which sandwiches norm."""
    spec, read, x = plain.spec, [], plain.placed(x)
    normed = spec.norm == "in_loop"
    e = plain.outside(plain.norm(x, "norm_in") if normed else x, "prelude", spec.prelude)
    first = e if normed else 0 * e
    s = {"none": e, "concat": first, "add": 0 * e, "multiply": 0 * e + 1}[spec.injection]
    for _ in range(loops):
        if spec.injection == "add":
            s = s + e if normed else s + e / spec.loops
        elif spec.injection == "multiply":
            s = s * e
        elif spec.injection == "concat":
            weight = plain.p["loop.inject.weight"]
            s = np.stack([weight @ np.concatenate(pair) for pair in zip(e, s, strict=True)])
        s = plain.body(s, scale)
        s = plain.norm(s, "norm_loop") if normed else s
        between = spec.block == "sandwich" and not normed
        last = plain.norm(s, "norm_coda") if between else s
        read.append(plain.norm(plain.outside(last, "coda", spec.coda)))
    return read


def lanes(plain: Plain, x: Array, loops: int, scale: float) -> list[Array]:
    """Hyper-connections of arXiv 2604.21106, lane by lane."""
    spec, p, read, x = plain.spec, plain.p, [], plain.placed(x)
    e = plain.outside(plain.norm(x, "norm_in"), "prelude", spec.prelude)
    lane = [e] * spec.lanes
    for t in range(loops):
        u = sum((p["loop.lane_read"][t, i] * lane[i] for i in range(spec.lanes)), 0 * e)
        s = plain.norm(plain.body(u, scale), "norm_loop")
        mix, write = p["loop.lane_mix"][t], p["loop.lane_write"][t]
        lane = [
            sum((mix[i, j] * lane[j] for j in range(spec.lanes)), write[i] * s)
            for i in range(spec.lanes)
        ]
        read.append(plain.norm(plain.outside(sum(lane, 0 * e), "coda", spec.coda)))
    return read


SHAPES: dict[str, dict[str, Any]] = {
    "add, two layers": {"n_layer": 2},
    "multiply": {"injection": "multiply"},
    "tied, two layers": {"family": "tied", "n_layer": 2},
    "standard": {"family": "standard"},
    **WAYS,
}
CASES: list[dict[str, Any]] = [
    *SHAPES.values(),
    {"connectivity": "FLT", "block": "gpt2", "loops": 4, "residual_scaling": "sqrt"},
    {"connectivity": "FLT_res", "block": "flt", "loops": 2, "residual_scaling": "linear"},
    {"family": "standard", "block": "flt", "residual_scaling": "sqrt"},
    {"family": "standard", "block": "llama", "residual_scaling": "factored"},
]


def check(model: Model, loops: int, window: int) -> None:
    """Unrolled and in the forward pass, with gradients cut at the window and reaching further."""
    prompts = as_double(draw_prompts(batch=2, points=5))
    expected = plain_predictions(model, prompts, loops)
    unrolled = [prediction.numpy() for _, prediction in model.unroll(prompts, loops)][1:]
    np.testing.assert_allclose(np.stack(unrolled), expected, rtol=1e-9, atol=1e-9)
    for grad_loops in {window, loops}:
        ours = model(prompts, loops, window, grad_loops=grad_loops).detach().numpy()
        np.testing.assert_allclose(ours, expected[-window:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("changes", CASES, ids=lambda c: "-".join(map(str, c.values())))
def test_predictions_are_those_of_the_plain_loop(changes: dict[str, Any]) -> None:
    model = make_model(**({"n_embd": 8} | changes)).double()
    check(model, loops=3, window=2)


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_are_those_of_differences(name: str) -> None:
    """Of all loops, along one direction of all weights, each of which counts."""
    model, prompts = make_model(**SHAPES[name]).double(), as_double(draw_prompts())
    draws, step = torch.Generator().manual_seed(7), 1e-6
    weights = torch.randn(2, 3, 6, generator=draws, dtype=torch.float64)
    (model(prompts, 3, 2, grad_loops=3) * weights).sum().backward()
    slope, values = 0.0, []
    with torch.no_grad():
        along = [torch.randn(p.shape, generator=draws).to(p) for p in model.parameters()]
        for (parameter, weight), direction in zip(model.named_parameters(), along, strict=True):
            assert weight.grad is not None, parameter
            assert torch.any(weight.grad != 0), parameter
            slope += float((weight.grad * direction).sum())
        for move in (step, -2 * step):
            for weight, direction in zip(model.parameters(), along, strict=True):
                weight.add_(direction, alpha=move)
            values.append(float((model(prompts, 3, 2) * weights).sum()))
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_cutting_gradients_is_detaching(name: str) -> None:
    """The window's gradients from a state that was made before and has no history."""
    model, prompts = make_model(**SHAPES[name]).double(), as_double(draw_prompts())
    loop, scale = model.loop, model.residual_scale()
    model(prompts, 3, 1, grad_loops=2).sum().backward()
    ours = {n: p.grad for n, p in model.named_parameters()}
    model.zero_grad()
    e = loop.prepare(model.read_in(model.reader.tokens(prompts, None)))
    state = loop.step(loop.start(e), e, 0, StepContext(scale))
    carry = None if state.carry is None else state.carry.detach()
    state = LoopState(state.stream.detach(), state.raw.detach(), carry)
    for t in (1, 2):
        state = loop.step(state, e, t, StepContext(scale))
    stream = state.stream[:, loop.kept_tokens(None)]
    model.read_out(loop.read(stream)).sum().backward()
    for name_, parameter in model.named_parameters():
        theirs, own = parameter.grad, ours[name_]
        assert (theirs is None) == (own is None), name_
        if theirs is not None and own is not None:
            torch.testing.assert_close(own, theirs, rtol=1e-9, atol=1e-10, msg=name_)


@pytest.mark.parametrize("injection", ["add", "multiply"])
def test_index_zero_is_the_read_in(injection: str) -> None:
    """Whatever the loop starts from, so that all families begin at the same point."""
    model = make_model(injection=injection)
    state, prediction = next(model.unroll(draw_prompts(), 1))
    prompts = draw_prompts()
    tokens = torch.zeros(3, 12, 3)
    tokens[:, 0::2], tokens[:, 1::2, 0] = prompts.xs, prompts.ys
    torch.testing.assert_close(state.stream, model.read_in(tokens))
    torch.testing.assert_close(state.raw, model.read_in(tokens))
    expected = model.read_out(model.read_in(prompts.xs)).squeeze(-1)
    torch.testing.assert_close(prediction, expected)


def test_index_zero_of_a_standard_model_is_read_through_its_norm() -> None:
    model, prompts = make_model("standard"), draw_prompts()
    _, prediction = next(model.unroll(prompts, 1))
    expected = model.read_out(model.loop.norm(model.read_in(prompts.xs))).squeeze(-1)
    torch.testing.assert_close(prediction, expected)


def test_a_standard_model_cannot_make_more_loops_than_layers() -> None:
    model, loops = make_model("standard", n_layer=3), 4
    with pytest.raises(ValueError, match=rf"3 layers .* cannot make {loops}"):
        model(draw_prompts(), loops)
    with pytest.raises(ValueError, match=rf"3 layers .* cannot make {loops}"):
        next(model.unroll(draw_prompts(), loops))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_later_loop_does_not_write_into_an_earlier_state(family: str) -> None:
    model = make_model(family)
    copies, states = [], []
    for state, _ in model.unroll(draw_prompts(), 3):
        copies.append((state.stream.clone(), state.raw.clone()))
        states.append(state)
    for (stream, raw), state in zip(copies, states, strict=True):
        assert torch.equal(stream, state.stream)
        assert torch.equal(raw, state.raw)


def test_unrolling_does_not_end_gradients_elsewhere() -> None:
    """A generator left half-way must not leave its mode behind."""
    steps = make_model().unroll(draw_prompts(), 3)
    next(steps)
    assert torch.is_grad_enabled()
    next(steps)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_agrees_with_float64_and_more_points_change_no_earlier_prediction(
    family: str,
) -> None:
    model, prompts = make_model(family).double(), draw_prompts()
    exact = model(as_double(prompts), 3)
    short = type(prompts)(prompts.xs[:, :4], prompts.ys[:, :4])
    torch.testing.assert_close(model(as_double(short), 3), exact[:, :, :4])
    torch.testing.assert_close(model.float()(prompts, 3), exact.float(), rtol=1e-4, atol=1e-4)


def test_a_loop_norms_its_output_and_tells_the_raw_one() -> None:
    """The state of a shared loop: what the next loop reads, and the same before the norm."""
    model = make_model().double()
    for state, _ in list(model.unroll(as_double(draw_prompts()), 3))[1:]:
        torch.testing.assert_close(model.loop.norm(state.raw), state.stream)
        assert not torch.allclose(state.raw, state.stream)


def test_gradient_reaches_back_as_far_as_the_window_unless_told() -> None:
    model = make_model().double()
    gradients = []
    for grad_loops in (None, 2, 3):
        predictions = model(as_double(draw_prompts()), 5, 2, grad_loops=grad_loops)
        gradients.append(torch.autograd.grad(predictions.square().sum(), [*model.parameters()]))
    default, window, further = gradients
    assert all(map(torch.equal, default, window))
    assert not all(map(torch.allclose, default, further))


def test_a_cut_leaves_the_read_in_without_a_gradient() -> None:
    """Without injection the read-in is met once, at the start: cut off, it gets none."""
    model = make_model("tied").double()
    weight = dict(model.named_parameters())["read_in.weight"]
    gradients = []
    for grad_loops in (4, 3):
        predictions = model(as_double(draw_prompts()), 4, 1, grad_loops=grad_loops)
        (gradient,) = torch.autograd.grad(
            predictions.square().sum(), [weight], allow_unused=True, materialize_grads=True
        )
        gradients.append(gradient)
    whole, cut = gradients
    assert whole.abs().min() > 0
    assert torch.all(cut == 0)
