"""The block against a NumPy formula in float64, written with loops over queries and keys."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from reloop.models.blocks.gpt2 import Block

Array = NDArray[np.float64]


def make_block(n_embd: int = 12, n_head: int = 3, seed: int = 0) -> Block:
    """A float64 block with weights of a size that makes every part of it count."""
    block = Block(n_embd, n_head).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return block


def draw_stream(*shape: int, seed: int = 1) -> torch.Tensor:
    """A stream of another mean and size than a norm would give it."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(shape, generator=generator, dtype=torch.float64) + 0.7


def norm(x: Array, weight: Array, bias: Array) -> Array:
    """LayerNorm with the biased variance and 1e-5 under the root."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias


def attend(query: Array, key: Array, value: Array, mask: NDArray[np.bool_]) -> Array:
    """One head, [S, size] each: query i mixes the values in its row of the mask by a softmax of
    its scores."""
    mixed = np.zeros_like(value)
    for i in range(len(query)):
        seen = np.flatnonzero(mask[i])
        scores = [float(query[i] @ key[j]) / np.sqrt(query.shape[1]) for j in seen]
        shares = np.exp(scores) / np.exp(scores).sum()
        for share, j in zip(shares, seen, strict=True):
            mixed[i] += share * value[j]
    return mixed


def slow_block(
    block: Block, stream: torch.Tensor, scale: float, mask: NDArray[np.bool_] | None = None
) -> Array:
    """The whole block from its weights; causal without a mask."""
    if mask is None:
        mask = np.tri(stream.shape[1], dtype=np.bool_)
    p = {name: weight.detach().numpy() for name, weight in block.named_parameters()}
    out = []
    for x in stream.numpy():
        width, size = x.shape[1], x.shape[1] // block.n_head
        qkv = norm(x, p["norm_1.weight"], p["norm_1.bias"]) @ p["qkv.weight"].T + p["qkv.bias"]
        heads = []
        for h in range(block.n_head):
            first = h * size
            query, key, value = (
                qkv[:, part * width + first : part * width + first + size] for part in range(3)
            )
            heads.append(attend(query, key, value, mask))
        mixed = np.concatenate(heads, axis=1) @ p["projection.weight"].T + p["projection.bias"]
        x = x + scale * mixed
        h1 = norm(x, p["norm_2.weight"], p["norm_2.bias"]) @ p["expand.weight"].T + p["expand.bias"]
        h1 = h1 / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h1 + 0.044715 * h1**3)))
        out.append(x + scale * (h1 @ p["contract.weight"].T + p["contract.bias"]))
    return np.stack(out)


@pytest.mark.parametrize("scale", [1.0, 0.25, 0.0])
@pytest.mark.parametrize(("n_embd", "n_head", "length"), [(12, 3, 7), (8, 1, 1), (8, 8, 5)])
def test_block_is_the_formula(n_embd: int, n_head: int, length: int, scale: float) -> None:
    block, stream = make_block(n_embd, n_head), draw_stream(2, length, n_embd)
    actual = block(stream, scale=scale).detach().numpy()
    np.testing.assert_allclose(actual, slow_block(block, stream, scale), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_mask_says_what_a_token_attends_to(scale: float) -> None:
    """Any mask: also one that looks ahead, and tokens that do not see themselves."""
    block, stream = make_block(), draw_stream(2, 7, 12)
    mask = torch.rand(7, 7, generator=torch.Generator().manual_seed(2)) < 0.5
    mask[:, 4] = True  # nobody sees nothing
    assert mask.triu(1).any()
    assert not mask.diagonal().all()
    actual = block(stream, mask=mask, scale=scale).detach().numpy()
    expected = slow_block(block, stream, scale, mask.numpy())
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tokens", [slice(None, None, 2), slice(4, None)])
def test_some_tokens_are_those_of_all(tokens: slice) -> None:
    block, stream = make_block(), draw_stream(2, 7, 12)
    torch.testing.assert_close(block(stream, tokens=tokens), block(stream)[:, tokens])


def test_scale_is_one_unless_given() -> None:
    block, stream = make_block(), draw_stream(2, 5, 12)
    assert torch.equal(block(stream), block(stream, scale=1.0))
    assert torch.equal(block(stream, scale=0.0), stream)


def test_block_does_not_change_its_input() -> None:
    block, stream = make_block(), draw_stream(2, 5, 12)
    before = stream.clone()
    block(stream)
    assert torch.equal(stream, before)
