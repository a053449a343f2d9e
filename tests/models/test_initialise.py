"""Initial weights: how large each kind is, and where the numbers come from."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from reloop.models import Model, ModelSpec


def generator(seed: int) -> torch.Generator:
    """A CPU generator with a fixed seed."""
    return torch.Generator().manual_seed(seed)


def wide(n_layer: int = 1, **changes: float) -> Model:
    """A model as wide as the paper's, on 20 dims."""
    shape: dict[str, Any] = {"n_layer": n_layer, **changes}
    if n_layer > 1:
        shape |= {"family": "standard", "injection": "none"}
    return Model(ModelSpec(dims=20, **shape), generator(1))


def assert_normal(weights: Tensor, std: float) -> None:
    """N(0, std²) at five standard errors: std / sqrt(n) of the mean, std / sqrt(2 n) of the std.
    The fourth moment, 3 std⁴ ± sqrt(96 / n), tells it from a uniform distribution (1.8)."""
    scaled, n = weights.detach().double().flatten() / std, weights.numel()
    assert abs(scaled.mean()) <= 5 / math.sqrt(n)
    assert abs(scaled.std() - 1) <= 5 / math.sqrt(2 * n)
    assert abs(scaled.pow(4).mean() - 3) <= 5 * math.sqrt(96 / n)


def assert_uniform(weights: Tensor, bound: float) -> None:
    """Uniform within ±bound: mean square 1/3 ± sqrt(4 / 45 n), nearly reaching its bounds."""
    scaled, n = weights.detach().double().flatten() / bound, weights.numel()
    assert scaled.abs().max() <= 1 + 1e-6
    # No number in the outer share s of the interval: probability (1 - s)^n = e^-13.8.
    assert scaled.abs().max() > 1 - 13.8 / n
    assert abs(scaled.mean()) <= 5 / math.sqrt(3 * n)
    assert abs(scaled.square().mean() - 1 / 3) <= 5 * math.sqrt(4 / 45 / n)


@pytest.mark.parametrize("n_layer", [1, 3])
def test_weights_of_the_loop(n_layer: int) -> None:
    """0.02, and less for what writes to the stream: two writers a layer."""
    model = wide(n_layer)
    for block in model.loop.blocks:
        for name, std in (
            ("qkv", 0.02),
            ("expand", 0.02),
            ("projection", 0.02 / math.sqrt(2 * n_layer)),
            ("contract", 0.02 / math.sqrt(2 * n_layer)),
        ):
            assert_normal(block.get_submodule(name).get_parameter("weight"), std)


def test_biases_of_the_loop_are_zero_and_norms_are_neutral() -> None:
    for module in wide().loop.modules():
        if isinstance(module, nn.Linear):
            assert torch.all(module.bias == 0)
        if isinstance(module, nn.LayerNorm):
            assert torch.all(module.weight == 1)
            assert torch.all(module.bias == 0)


def test_positions() -> None:
    """One for each token of 101 pairs, and one to spare."""
    positions = wide().get_parameter("loop.positions")
    assert positions.shape == (203, 256)
    assert_normal(positions, 0.02)


def test_read_in_and_read_out_are_uniform_within_their_fan_in() -> None:
    model = wide()
    for layer, fan_in in ((model.read_in, 20), (model.read_out, 256)):
        assert_uniform(layer.weight, 1 / math.sqrt(fan_in))
        if layer.bias.numel() > 1:
            assert_uniform(layer.bias, 1 / math.sqrt(fan_in))
        assert layer.bias.abs().max() <= 1 / math.sqrt(fan_in)


def test_every_number_is_drawn_anew() -> None:
    """No two layers and no two kinds share weights."""
    weights = torch.cat([w.detach().flatten()[:64] for w in wide(3).parameters() if w.ndim > 1])
    assert len(weights.unique()) > 0.99 * len(weights)


def test_weights_are_a_function_of_the_generator() -> None:
    spec = ModelSpec(dims=3, n_embd=16, n_head=2)
    one, same, other = (Model(spec, generator(seed)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["loop.positions"], other["loop.positions"])
    assert not torch.equal(one["read_out.weight"], other["read_out.weight"])
    zero, default = Model(spec, generator(0)).state_dict(), Model(spec).state_dict()
    assert all(torch.equal(zero[name], default[name]) for name in zero)


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    spec, made = ModelSpec(dims=3, n_embd=16, n_head=2), []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            state = torch.get_rng_state()
            made.append(Model(spec).state_dict())
            assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
