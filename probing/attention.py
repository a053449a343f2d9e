"""The share of attention that each head gives to the previous token where that binds a pair: at
y_i, to x_i.

with recorded_shares(run.model) as shares:                         # of each loop [heads, B]
    list(run.model.unroll(prompts, loops=12))

In-context regression needs pairs: a head that reads x_i at y_i (a previous-token head, Olsson et
al. 2022) puts both into one token, from which later loops compute.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from looplab.models import Model
from looplab.models.backends import use_backend
from looplab.models.operations import Operations


@contextmanager
def recorded_shares(model: Model) -> Iterator[list[Tensor]]:
    """Within this context each use of the model's attention on prompts adds its shares to the list,
    [heads, B] in float32: of each head's attention at the y tokens from the second pair on that
    which goes to their own x. Uses are in the order of computation: layer by layer and loop by
    loop, with a prelude's before the first and a coda's after each. Without softmax attention the
    list stays empty. The model computes by plain PyTorch."""
    recorder = _Recorder()
    previous = model.run_segment, model.operations
    use_backend(model, "eager")
    model.operations = recorder
    try:
        yield recorder.shares
    finally:
        model.run_segment, model.operations = previous


def uniform_share(points: int) -> float:
    """The share of the previous token in attention that is the same for all tokens: the mean over
    the y tokens of pairs 2 … `points`."""
    # The y of pair i is token 2i: itself and 2i − 1 tokens before it.
    return sum(1 / (2 * pair) for pair in range(2, points + 1)) / (points - 1)


class _Recorder(Operations):
    """Plain operations that keep the shares [heads, B] of each use of attention."""

    def __init__(self) -> None:
        self.shares: list[Tensor] = []

    def attend(self, heads: Tensor, mask: Tensor | None) -> Tensor:
        query, key, _ = heads.unbind(0)
        length = query.shape[-2]
        # With the tokens' unit vectors in place of values, attention returns its weights.
        units = torch.eye(length, dtype=query.dtype, device=query.device)
        units = units.expand(*query.shape[:2], length, length)
        weights = F.scaled_dot_product_attention(
            query, key, units, attn_mask=mask, is_causal=mask is None
        )
        pairs = weights.diagonal(-1, -2, -1)[..., 2::2]  # at y_i to x_i, from the second pair on
        self.shares.append(pairs.detach().float().mean(-1).transpose(0, 1))
        return super().attend(heads, mask)
