"""Every block with every attention: the formula, what a token can see, how small it rounds, and
rotary positions that turn the other way."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.models.blocks.attention import rotation
from looplab.models.blocks.make import make_block
from looplab.models.blocks.parameters import initialise_block
from looplab.models.blocks.spec import BlockSpec
from tests.models.plain_blocks import ALL, WINDOW, draw_stream, drawn_block, plain_block, small_spec

LENGTH = 8


@pytest.fixture(
    params=[
        *(*ALL, ("gpt2", "full", "post"), ("llama", "latent", "post")),
        *(("gpt2", "full", "wide"), ("relu2", "full", "wide")),
    ],
    ids="-".join,
)
def spec(request: pytest.FixtureRequest) -> BlockSpec:
    """Each kind of block with each kind of attention, post-norm ones and such of a given width."""
    kind, attention, *other = request.param
    shape = small_spec(kind, attention)
    shape = replace(shape, hidden=30, rope_base=77) if "wide" in other else shape
    return replace(shape, post_norm="post" in other)


def window_of(spec: BlockSpec) -> int | None:
    """What layer 0 of `small_spec` sees."""
    return WINDOW if spec.attention == "sliding" else None


def test_block_is_the_formula(spec: BlockSpec) -> None:
    """By itself, its input left as it is; and with all that it can be given. Any mask: one that
    looks ahead too, and tokens that do not see themselves. Positions with gaps, and one that
    stands between others."""
    block, stream, memory = drawn_block(spec), draw_stream(LENGTH, 24), draw_stream(8, 24, seed=2)
    mask = torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(3)) < 0.6
    mask |= torch.eye(LENGTH).roll(1, 0).bool()  # nobody sees nothing
    assert mask.triu(1).any()
    assert not mask.diagonal().all()
    positions = [0, 1, 3, 4, 5, 7, 9, 4]
    tokens = slice(1, None, 2)
    actual = block(
        stream[None], memory=memory[None], positions=torch.tensor(positions), mask=mask,
        scale=0.25, tokens=tokens,
    )  # fmt: skip
    expected = plain_block(
        spec, block, stream.numpy(), window=window_of(spec), memory=memory.numpy(),
        positions=positions, mask=mask.numpy(), scale=0.25,
    )  # fmt: skip
    np.testing.assert_allclose(actual[0].detach(), expected[tokens], rtol=1e-9, atol=1e-9)
    before = stream.clone()
    plain = plain_block(spec, block, stream.numpy(), window=window_of(spec))
    np.testing.assert_allclose(block(stream[None])[0].detach(), plain, rtol=1e-9, atol=1e-9)
    assert torch.equal(stream, before)


def test_a_token_sees_itself_and_what_is_before_it(spec: BlockSpec) -> None:
    """As far back as the window, bit for bit."""
    block, stream, j = drawn_block(spec), draw_stream(1, LENGTH, 24), 3
    altered = stream.clone()
    altered[:, j] = draw_stream(24, seed=4)
    changed = (block(stream) != block(altered)).all(-1)[0]
    same = (block(stream) == block(altered)).all(-1)[0]
    sees = torch.arange(LENGTH) >= j
    if spec.attention == "sliding":
        sees &= torch.arange(LENGTH) < j + WINDOW
    assert torch.equal(changed, sees)
    assert torch.equal(same, ~sees)


@pytest.mark.parametrize(
    ("kind", "attention", "length"),
    [
        *(("gpt2", "full", 6), ("gpt2", "full", 60), ("llama", "full", 60), ("relu2", "full", 6)),
        ("sandwich", "full", 60),
        *(("flt", "grouped", 6), ("flt", "latent", 60), ("flt", "sliding", 60)),
    ],
)
def test_bf16_is_near_and_every_gradient_is_there(kind: str, attention: str, length: int) -> None:
    """Products in bfloat16 over float32 weights, on both sides of where attention changes its way.
    An error of 2 % in a gradient is cos 0.02 = 0.9998; softmax and squares triple it at most."""
    shape = replace(small_spec(kind, attention), n_embd=64, length=80, std=0.1)
    block = make_block(shape)
    drawn = "sandwich" if kind == "sandwich" else "llama"
    initialise_block(block, replace(shape, kind=drawn), torch.Generator().manual_seed(0))
    stream, memory = draw_stream(2, length, 64).float(), draw_stream(2, length, 64, seed=7).float()
    weights = draw_stream(2, length, 64, seed=8).float()
    found: list[dict[str, Tensor | None]] = []
    for rounded in (False, True):
        block.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
            out = block(stream, memory=memory)
        assert out.dtype == torch.float32
        (out * weights).sum().backward()
        found.append({name: p.grad for name, p in block.named_parameters()})
    for name, exact in found[0].items():
        actual = found[1][name]
        assert exact is not None, name
        assert actual is not None, name
        assert actual.dtype == torch.float32
        assert torch.isfinite(actual).all()
        if exact.norm() > 1e-3:  # a bias of keys moves nothing
            cosine = torch.cosine_similarity(actual.flatten(), exact.flatten(), dim=0)
            assert cosine > 0.998, f"{name}: {cosine:.5f}"


def test_angles_are_not_rounded_to_bf16() -> None:
    """In bfloat16 position 301 would be 300 or 302: more than half a radian off."""
    positions = torch.tensor([301])
    exact = rotation(positions, 8, torch.float64)
    for rounded, wanted in zip(rotation(positions, 8, torch.bfloat16), exact, strict=True):
        torch.testing.assert_close(rounded.double(), wanted, rtol=0, atol=1e-4)


def test_a_layer_that_is_not_there_is_refused() -> None:
    for layer in (-1, 2):
        with pytest.raises(ValueError, match=f"2 layers has no layer {layer}"):
            make_block(small_spec("llama", "full"), layer)


def test_a_gated_mlp_has_as_many_parameters_as_another() -> None:
    """2048 for 768 in the paper; rounded up where 8/3 of the width is no multiple of 8."""
    widths = [BlockSpec(d, 4, kind="llama").n_hidden for d in (768, 64, 96)]
    assert widths == [2048, 176, 256]
    assert BlockSpec(96, 4, kind="sandwich").n_hidden == 256
    assert BlockSpec(64, 4, kind="flt").n_hidden == BlockSpec(64, 4).n_hidden == 256
