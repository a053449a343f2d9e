"""Norms that show an unstable training early (arXiv 2605.18797): of the residual stream after the
first loop and after the last, and of the first MLP's gradient before and after clipping.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from reloop.models import Model
from reloop.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from reloop.models.segment import Span

from .around_segment import AroundSegment

# The names of the norms in metrics.jsonl: those of a ResidualNorms, then those of the gradient.
NORMS = ("first_residual", "last_residual", "mlp_grad_norm", "mlp_grad_norm_clipped")
_FIRST_MLP = ("loop.blocks.0.mlp.", "loop.blocks.0.expand.", "loop.blocks.0.contract.")


class ResidualNorms(AroundSegment):
    """Within this context the model records in `norms` [2] the norms of its residual stream before
    any norm layer, after the first loop and after the last: means over prompts and the tokens of
    the predictions (the paper: over all tokens). The model's results do not change."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.norms = torch.zeros(2, dtype=torch.float32)
        self._first = torch.zeros((), dtype=torch.float32)

    def __call__(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        """The same steps, the first loop separately."""
        streams = []
        if span.first == 0 and span.count > 1:
            tokens = loop.kept_tokens(context.layout)
            state, _ = self._segment(loop, state, e, replace(span, count=1, keep=0), context)
            self._first = _mean_norm(state.raw[:, tokens])
            if span.keep == span.count:
                streams.append(state.stream[None, :, tokens])
            keep = min(span.keep, span.count - 1)
            span = replace(span, first=1, count=span.count - 1, keep=keep)
        state, rest = self._segment(loop, state, e, span, context)
        if span.first == 0 and span.count == 1:
            self._first = _mean_norm(
                state.raw if span.keep else state.raw[:, loop.kept_tokens(context.layout)]
            )
        if span.keep:
            self.norms = torch.stack((self._first, _mean_norm(state.raw)))
        return state, torch.cat((*streams, rest)) if streams else rest


def first_mlp(model: Model) -> list[torch.nn.Parameter]:
    """The parameters of the first block's MLP."""
    return [p for name, p in model.named_parameters() if name.startswith(_FIRST_MLP)]


def gradient_norm(parameters: Iterable[torch.nn.Parameter]) -> Tensor:
    """The norm of these parameters' gradients, []."""
    return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])


def _mean_norm(raw: Tensor) -> Tensor:
    return torch.linalg.vector_norm(raw.detach().float(), dim=-1).mean()
