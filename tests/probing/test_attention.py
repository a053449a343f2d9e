"""The previous-token share of attention, beside attention computed from its weights."""

import math
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from looplab.models import Model, ModelSpec
from looplab.probing.attention import recorded_shares, uniform_share
from looplab.tasks import Prompts

_SPEC = ModelSpec(dims=3, n_embd=16, n_head=2, n_positions=6, injection="add")


def _prompts() -> Prompts:
    generator = torch.Generator().manual_seed(0)
    xs = torch.randn(4, 6, 3, generator=generator)
    return Prompts(xs, torch.randn(4, 6, generator=generator))


def _qkv(model: Model) -> nn.Linear:
    return cast(nn.Linear, model.loop.blocks[0].qkv)


def _shares(model: Model, prompts: Prompts, loops: int) -> Tensor:
    """[uses, heads, B]."""
    with recorded_shares(model) as shares:
        list(model.unroll(prompts, loops))
    return torch.stack(shares)


def test_uniform_attention_has_the_uniform_share() -> None:
    model = Model(_SPEC)
    with torch.no_grad():
        _qkv(model).weight[:16] = 0  # queries
        _qkv(model).bias[:16] = 0
    shares = _shares(model, _prompts(), loops=3)
    assert shares.shape == (3, 2, 4)
    assert torch.allclose(shares, torch.tensor(uniform_share(6)))
    assert uniform_share(3) == pytest.approx((1 / 4 + 1 / 6) / 2)


def test_shares_are_those_of_a_softmax_by_hand() -> None:
    model, prompts = Model(_SPEC), _prompts()
    with torch.no_grad():
        _qkv(model).weight.mul_(20)
    seen = []
    hook = _qkv(model).register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    shares = _shares(model, prompts, loops=1)
    hook.remove()
    (normed,) = seen
    qkv = _qkv(model)(normed).detach()
    for head in range(2):
        query = qkv[..., 8 * head : 8 * head + 8]
        key = qkv[..., 16 + 8 * head : 24 + 8 * head]
        for prompt in range(4):
            own = []
            for pair in range(1, 6):
                y = 2 * pair + 1
                scores = [float(query[prompt, y] @ key[prompt, s]) / 8**0.5 for s in range(y + 1)]
                weights = [math.exp(score - max(scores)) for score in scores]
                own.append(weights[y - 1] / sum(weights))
            assert float(shares[0, head, prompt]) == pytest.approx(sum(own) / 5, rel=1e-4)


def test_a_model_computes_as_before_afterwards() -> None:
    model, prompts = Model(_SPEC), _prompts()
    before = model(prompts, loops=3)
    operations = model.operations
    _shares(model, prompts, loops=3)
    assert model.operations is operations
    assert torch.equal(model(prompts, loops=3), before)
