"""How the weights of a block start, their roles, and their number by formula."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Generator, nn

from reloop.models import Model, ModelSpec
from reloop.models.blocks.make import make_block
from reloop.models.blocks.parameters import (
    Role,
    block_roles,
    count_block,
    count_language_model,
    initialise_block,
)
from reloop.models.blocks.spec import BlockSpec
from tests.models.plain_blocks import ALL, ATTENTIONS, small_spec


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
    assert not any(name.endswith("bias") for name in weights) or spec.kind == "gpt2"


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_llama_s_weights_have_the_given_deviation(attention: str) -> None:
    """Those that write to the stream as well. 64 · 16 numbers at least: 1/sqrt(2 · 1024) = 2.2 %
    is the error of a standard deviation."""
    spec = replace(small_spec("llama", attention, n_embd=64), rank=16, std=0.125)
    for name, weight in fresh(spec).items():
        if "norm" not in name:
            assert weight.std().item() == pytest.approx(0.125, rel=0.1), name
            assert abs(weight.mean().item()) < 0.02


@pytest.mark.parametrize("attention", ATTENTIONS)
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


def test_gpt2_starts_as_a_model_s_blocks_do() -> None:
    """The same draws from the same generator, thinner with the number of layers."""
    shape = ModelSpec(dims=3, n_layer=3, n_embd=32, n_head=4, family="standard", injection="none")
    model = Model(shape, Generator().manual_seed(5))
    spec, generator = BlockSpec(32, 4, n_layer=3), Generator().manual_seed(5)
    for layer in range(3):
        block = make_block(spec, layer)
        initialise_block(block, spec, generator)
        theirs = model.loop.blocks[layer].state_dict()
        for name, weight in block.state_dict().items():
            assert torch.equal(weight, theirs[name]), name


@pytest.mark.parametrize("pair", ALL, ids="-".join)
def test_every_parameter_has_a_role_and_its_parts_add_up(pair: tuple[str, str]) -> None:
    spec = small_spec(*pair)
    block = make_block(spec)
    roles, weights = block_roles(block, spec), dict(block.named_parameters())
    assert roles.keys() == weights.keys()
    for name, role in roles.items():
        assert sum(role.parts) == len(weights[name]), name
        expected = "matrix" if weights[name].ndim == 2 else "norm" if "norm" in name else "bias"
        assert role.kind == expected, name


def test_fused_matrices_tell_their_parts() -> None:
    def roles(kind: str, attention: str) -> dict[str, Role]:
        spec = small_spec(kind, attention)
        return block_roles(make_block(spec), spec)

    assert roles("gpt2", "full")["qkv.weight"] == Role("matrix", (24, 24, 24))
    assert roles("gpt2", "full")["qkv.bias"] == Role("bias", (72,))
    assert roles("gpt2", "sliding")["mlp.expand.weight"] == Role("matrix", (96,))
    assert roles("llama", "grouped") == {
        "norm_1.weight": Role("norm", (24,)),
        "attention.qkv.weight": Role("matrix", (24, 12, 12)),
        "attention.projection.weight": Role("matrix", (24,)),
        "norm_2.weight": Role("norm", (24,)),
        "mlp.expand.weight": Role("matrix", (64, 64)),
        "mlp.contract.weight": Role("matrix", (24,)),
    }
    assert roles("flt", "latent") == {
        "attention.query.weight": Role("matrix", (24,)),
        "attention.down.weight": Role("matrix", (5,)),
        "attention.up.weight": Role("matrix", (24, 24)),
        "attention.projection.weight": Role("matrix", (24,)),
        "mlp.expand.weight": Role("matrix", (96,)),
        "mlp.contract.weight": Role("matrix", (24,)),
    }


@pytest.mark.parametrize("pair", ALL, ids="-".join)
@pytest.mark.parametrize(("n_embd", "n_head"), [(24, 4), (40, 2)])
def test_the_formula_counts_what_is_there(pair: tuple[str, str], n_embd: int, n_head: int) -> None:
    spec = small_spec(*pair, n_embd=n_embd, n_head=n_head)
    assert count_block(spec) == sum(p.numel() for p in make_block(spec).parameters())


@pytest.mark.parametrize(("depth", "heads", "millions"), [(6, 3, 127.1), (12, 6, 317.9)])
def test_the_fully_looped_paper_s_models(depth: int, heads: int, millions: float) -> None:
    """arXiv 2605.18797: Qwen3's vocabulary, embedding and head of their own."""
    spec = BlockSpec(64 * depth, heads, n_layer=depth, kind="flt")
    assert count_language_model(spec, 151_644, tied=False) / 1e6 == pytest.approx(
        millions, abs=0.05
    )
    assert count_language_model(spec, 151_644, tied=False) == count_language_model(
        spec, 151_680, tied=False
    )


@pytest.mark.parametrize(("n_layer", "millions"), [(12, 183.5), (24, 268.4), (48, 438.3)])
def test_the_residual_scaling_paper_s_models(n_layer: int, millions: float) -> None:
    """arXiv 2606.18524, Table 2: Llama 3's vocabulary, tied to the head."""
    spec = BlockSpec(768, 12, n_layer=n_layer, kind="llama")
    assert count_language_model(spec, 128_256, tied=True) / 1e6 == pytest.approx(millions, abs=0.05)


def test_grouped_heads_save_what_the_paper_says() -> None:
    """A block has (10 + 2 r) n_embd² numbers where r of the heads have keys of their own."""
    spec = BlockSpec(768, 6, kind="flt", attention="grouped", n_kv=3)
    assert count_block(spec) == 11 * 768**2


def test_language_models_are_made_of_what_is_counted() -> None:
    """Final norm and the head's tie included."""
    for kind, norm in (("gpt2", 48), ("llama", 24), ("flt", 0)):
        spec = BlockSpec(24, 4, n_layer=2, kind=kind)
        blocks = 2 * count_block(spec)
        assert count_language_model(spec, 64, tied=True) == blocks + norm + 64 * 24
        assert count_language_model(spec, 65, tied=False) == blocks + norm + 2 * 128 * 24
