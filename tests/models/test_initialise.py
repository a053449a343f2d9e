"""Initial weights of models and blocks: how large each kind is, its role, and where the numbers
come from."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from looplab.models import Model, ModelSpec
from looplab.models.blocks.make import make_block
from looplab.models.blocks.parameters import (
    Role,
    block_roles,
    initialise_block,
    padded_vocabulary,
)
from looplab.models.blocks.spec import BlockSpec
from looplab.probing.attention import recorded_shares
from looplab.probing.dynamics.trajectory import follow
from tests.models.plain_blocks import ALL, small_spec
from tests.models.small import draw_prompts


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


def test_weights_and_positions_of_the_loop() -> None:
    """0.02, and less for what writes to the stream: two writers a layer."""
    n_layer = 3
    model = wide(n_layer)
    for block in model.loop.blocks:
        for name, std in (
            ("qkv", 0.02),
            ("expand", 0.02),
            ("projection", 0.02 / math.sqrt(2 * n_layer)),
            ("contract", 0.02 / math.sqrt(2 * n_layer)),
        ):
            assert_normal(block.get_submodule(name).get_parameter("weight"), std)
    positions = model.get_parameter("loop.positions")
    assert positions.shape == (203, 256)  # one for each token of 101 pairs, and one to spare
    assert_normal(positions, 0.02)


def test_read_in_and_read_out_are_uniform_within_their_fan_in() -> None:
    model = wide()
    for layer, fan_in in ((model.read_in, 20), (model.read_out, 256)):
        assert_uniform(layer.weight, 1 / math.sqrt(fan_in))
        if layer.bias.numel() > 1:
            assert_uniform(layer.bias, 1 / math.sqrt(fan_in))
        assert layer.bias.abs().max() <= 1 / math.sqrt(fan_in)


def test_weights_are_a_function_of_the_generator() -> None:
    """The global one is neither read nor moved; without any it is that of seed 0."""
    spec = ModelSpec(dims=3, n_embd=16, n_head=2)
    state = torch.get_rng_state()
    one, same, other = (Model(spec, generator(seed)).state_dict() for seed in (1, 1, 2))
    zero, default = Model(spec, generator(0)).state_dict(), Model(spec).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert all(torch.equal(zero[name], default[name]) for name in zero)
    assert not torch.equal(one["loop.positions"], other["loop.positions"])
    assert not torch.equal(one["read_out.weight"], other["read_out.weight"])


def fresh(spec: BlockSpec, seed: int = 0) -> dict[str, torch.Tensor]:
    """The weights of a new block, made as a model makes its own."""
    with torch.device("meta"):
        block = make_block(spec)
    block.to_empty(device="cpu")
    for parameter in block.parameters():
        nn.init.constant_(parameter, math.nan)
    initialise_block(block, spec, Generator().manual_seed(seed))
    return dict(block.named_parameters())


@pytest.mark.parametrize("pair", ALL, ids="-".join)
def test_norms_are_the_identity_biases_zero_and_weights_drawn(pair: tuple[str, str]) -> None:
    spec = small_spec(*pair)
    weights, again, others = fresh(spec), fresh(spec), fresh(spec, seed=1)
    for name, weight in weights.items():
        assert torch.equal(weight, again[name])
        if name.endswith("bias"):
            assert (weight == 0).all(), name
        elif "norm" in name:
            assert (weight == 1).all(), name
        elif not (spec.kind == "flt" and name.endswith(("projection.weight", "contract.weight"))):
            assert not torch.equal(weight, others[name]), name
    biases = {name.split(".")[-1] for name in weights if name.endswith("bias")}
    assert biases == {"gpt2": {"bias"}, "sandwich": {"qk_bias"}}.get(spec.kind, set())


@pytest.mark.parametrize("kind", ["llama", "sandwich"])
@pytest.mark.parametrize("attention", ["full", "latent"])
def test_llama_s_weights_have_the_given_deviation(attention: str, kind: str) -> None:
    """Those that write to the stream as well. 64 · 16 numbers at least: 1/sqrt(2 · 1024) = 2.2 %
    is the error of a standard deviation."""
    spec = replace(small_spec(kind, attention, n_embd=64), rank=16, std=0.125)
    for name, weight in fresh(spec).items():
        if "norm" not in name and "bias" not in name:
            assert weight.std().item() == pytest.approx(0.125, rel=0.1), name
            assert abs(weight.mean().item()) < 0.02


@pytest.mark.parametrize("attention", ["full", "latent"])
def test_the_fully_looped_start_within_their_bounds(attention: str) -> None:
    """sqrt(3 / what a product reads), filled to the brim; zero where it writes to the stream."""
    spec = replace(small_spec("flt", attention, n_embd=64), rank=12)
    for name, weight in fresh(spec).items():
        if name.endswith(("projection.weight", "contract.weight")):
            assert (weight == 0).all()
        else:
            bound = math.sqrt(3 / (12 if name.endswith("up.weight") else 64))
            assert 0.98 * bound < weight.max().item() <= bound, name
            assert -0.98 * bound > weight.min().item() >= -bound, name


def test_fused_matrices_tell_their_parts() -> None:
    def roles(kind: str, attention: str) -> dict[str, Role]:
        spec = small_spec(kind, attention)
        return block_roles(make_block(spec), spec)

    assert roles("gpt2", "full")["qkv.weight"] == Role("matrix", (24, 24, 24))
    grouped, latent = roles("llama", "grouped"), roles("flt", "latent")
    assert grouped["attention.qkv.weight"] == Role("matrix", (24, 12, 12))
    assert grouped["mlp.expand.weight"] == Role("matrix", (64, 64))
    sandwich = roles("sandwich", "grouped")
    assert sandwich["attention.qkv.weight"] == Role("matrix", (24, 12, 12))
    assert sandwich["mlp.expand.weight"] == Role("matrix", (20, 20))
    assert sandwich["attention.qk_bias"] == Role("bias", (6,))
    assert sandwich["norm_2_after.weight"] == Role("norm", (24,))
    assert latent["attention.up.weight"] == Role("matrix", (24, 24))
    assert latent["mlp.expand.weight"] == Role("matrix", (96,))


@pytest.mark.parametrize("pair", ALL, ids="-".join)
def test_every_parameter_has_its_role(pair: tuple[str, str]) -> None:
    spec = small_spec(*pair)
    block = make_block(spec)
    roles, weights = block_roles(block, spec), dict(block.named_parameters())
    assert roles.keys() == weights.keys()
    for name, role in roles.items():
        assert sum(role.parts) == len(weights[name]), name
        expected = "norm" if "norm" in name else "bias" if "bias" in name else "matrix"
        assert role.kind == expected, name


@pytest.mark.parametrize(
    ("spec", "matrices", "millions"),
    [
        # arXiv 2605.18797: Qwen3's vocabulary, embedding and head of their own.
        (BlockSpec(64 * 6, 3, n_layer=6, kind="flt"), 2 * 151_680, 127.1),
        (BlockSpec(64 * 12, 6, n_layer=12, kind="flt"), 2 * 151_680, 317.9),
        # arXiv 2606.18524, Table 2: Llama 3's vocabulary, tied to the head.
        (BlockSpec(768, 12, n_layer=12, kind="llama"), 128_256, 183.5),
        (BlockSpec(768, 12, n_layer=24, kind="llama"), 128_256, 268.4),
        (BlockSpec(768, 12, n_layer=48, kind="llama"), 128_256, 438.3),
    ],
)
def test_the_papers_models(spec: BlockSpec, matrices: int, millions: float) -> None:
    """The parameters of the layers and of so many rows of embedding and head."""
    with torch.device("meta"):
        block = make_block(spec)
    layer = sum(parameter.numel() for parameter in block.parameters())
    whole = spec.n_layer * layer + matrices * spec.n_embd
    assert whole / 1e6 == pytest.approx(millions, abs=0.05)


def test_a_vocabulary_is_padded_to_a_multiple_of_64() -> None:
    assert padded_vocabulary(151_644) == 151_680


@pytest.mark.parametrize("connectivity", ["LT", "FLT"])
def test_a_new_block_of_the_fully_looped_paper_adds_nothing(connectivity: str) -> None:
    """arXiv 2605.18797, Appendix A.3: output weights start at zero."""
    small = {"dims": 3, "n_embd": 16, "n_head": 2, "n_layer": 2, "injection": "none"}
    spec = ModelSpec(**small, block="flt", connectivity=connectivity)  # type: ignore[arg-type]
    new = follow(Model(spec), draw_prompts(), loops=3)
    for state in new.states:
        torch.testing.assert_close(state.raw, new.start)


@pytest.mark.parametrize(
    "changes",
    [
        {"injection": "concat", "prelude": 1},
        {"injection": "none", "lanes": 2, "loops": 3},
        {"previous_token_head": True},
    ],
)
def test_weights_are_the_same_where_modules_are_made_on_the_meta_device(
    changes: dict[str, Any],
) -> None:
    """As `transformers` makes them."""
    spec = ModelSpec(dims=3, n_embd=16, n_head=2, **changes)
    with torch.device("meta"):
        model = Model(spec, generator(1))
    wanted = Model(spec, generator(1)).state_dict()
    assert all(map(torch.equal, model.state_dict().values(), wanted.values()))


@pytest.mark.parametrize(
    "shape", [{"n_head": 4}, {"n_head": 2}, {"n_embd": 64, "n_head": 4}, {"family": "standard"}]
)
def test_the_first_head_attends_to_the_token_before(shape: dict[str, Any]) -> None:
    standard = {"injection": "none"} if "family" in shape else {"injection": "add"}
    spec = {"dims": 3, "n_embd": 32, "n_head": 4, "n_positions": 8, "std": 0.1} | standard | shape
    model = Model(ModelSpec(**spec, previous_token_head=True))
    with recorded_shares(model) as shares:
        list(model.unroll(draw_prompts(batch=32, points=8), 1))
    first, *others = torch.stack(shares)[0].mean(-1)
    assert first > 0.7
    assert max(others) < 0.3
