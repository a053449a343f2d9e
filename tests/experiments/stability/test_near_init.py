"""The transformer of the stability figures against one in plain Python, and how it is made."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from reloop.experiments.stability.near_init import (
    TOKENS,
    VOCABULARY,
    Stack,
    TokenModel,
    token_model,
)
from reloop.experiments.stability.settings import INITS, WIDTH, Init
from reloop.models.blocks.spec import BlockSpec
from reloop.models.loops.loop import LayerLoop, Loop
from reloop.models.loops.recurrent import RecurrentLoop
from tests.models.plain_blocks import Array, plain_block

LOOPS, U, SCALE = 3, 2, 0.4


def small(shared: bool) -> tuple[TokenModel, Tensor]:
    """In float64, with every weight drawn."""
    spec = BlockSpec(8, 2, U if shared else U * LOOPS, kind="llama", length=5)
    loop: Loop = RecurrentLoop(spec) if shared else LayerLoop(spec)
    model = TokenModel(loop, LOOPS, 1 if shared else U, SCALE).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return model, torch.tensor([[3, 250, 3, 17, 0]])


def plain_streams(model: TokenModel, tokens: Tensor) -> list[Array]:
    """The stream before the first loop and after each."""
    x = model.embedding.detach().numpy()[tokens[0].numpy()]
    streams, blocks = [x], list(model.loop.blocks)
    order = blocks * LOOPS if len(blocks) == U else blocks
    for index, block in enumerate(order, start=1):
        x = plain_block(model.loop.spec, block, x, scale=SCALE)
        if index % U == 0:
            streams.append(x)
    return streams


@pytest.mark.parametrize("shared", [True, False])
def test_streams_output_and_loss_are_the_formulas(shared: bool) -> None:
    model, tokens = small(shared)
    expected = plain_streams(model, tokens)
    streams = [stream[0].detach().numpy() for stream in model.streams(tokens)]
    assert len(streams) == LOOPS + 1
    for found, plain in zip(streams, expected, strict=True):
        np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-12)
    raw, normed = model(tokens)
    np.testing.assert_allclose(raw[0].detach().numpy(), expected[-1], rtol=1e-9, atol=1e-12)
    gain = model.get_parameter("loop.norm.weight").detach().numpy()
    read = np.stack([x / np.sqrt((x**2).sum() / 8 + 1e-5) * gain for x in expected[-1]])
    np.testing.assert_allclose(normed[0].detach().numpy(), read, rtol=1e-9, atol=1e-12)
    losses = []
    for x, target in zip(read[:-1], tokens[0, 1:].tolist(), strict=True):
        logits = model.embedding.detach().numpy() @ x
        losses.append(np.log(np.exp(logits).sum()) - logits[target])
    assert model.loss(normed, tokens).item() == pytest.approx(np.mean(losses))


def test_a_stack_is_made_as_its_setting_says() -> None:
    init = Init(2, 0.7, 0.05, 1e-4)
    looped, tokens = token_model(init, Stack(3, True, "sqrt"), seed=1)
    deep, same = token_model(init, Stack(3, False, "sqrt"), seed=1)
    assert tokens.shape == (1, TOKENS)
    assert torch.equal(tokens, same)
    assert 0.9 * VOCABULARY < int(tokens.max()) < VOCABULARY
    assert torch.equal(looped.embedding, deep.embedding)
    assert looped.embedding.std().item() == pytest.approx(0.7, rel=0.02)
    assert (len(looped.loop.blocks), len(deep.loop.blocks)) == (2, 6)
    for mine, theirs in zip(looped.loop.blocks, deep.loop.blocks, strict=False):
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)
    weights = [deep.get_parameter(f"loop.blocks.{i}.mlp.expand.weight") for i in range(6)]
    assert all(w.std().item() == pytest.approx(0.05, rel=0.02) for w in weights)
    assert not any(torch.equal(weights[0], other) for other in weights[1:])
    assert looped.scale == deep.scale == pytest.approx(3**-0.5)
    # The stream is that of R loops either way, and a looped stack's is normed nowhere within.
    assert len(list(looped.streams(tokens))) == len(list(deep.streams(tokens))) == 4
    assert not torch.equal(token_model(init, Stack(3, True, "sqrt"), seed=2)[1], tokens)


def test_the_named_settings_are_those_of_the_targets() -> None:
    assert INITS == {
        "weak": (1, 1.0, 0.01, 1e-4),
        "strong": (1, 2.0, 1 / 8, 1e-4),
        "paper_like": (4, 0.02, 0.02, 1e-3),
    }
    assert (WIDTH, TOKENS) == (64, 128)
