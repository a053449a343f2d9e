"""How much the last loop enlarges a small change of its state: what `training.jacobian_penalty`
weighs (Bai et al. 2021 for equilibrium models, arXiv 2106.14342).

with JacobianGain(model, noise) as jacobian:        # noise [B, S, n_embd], standard normal
    predictions = model(prompts, 12, 4)
(loss + weight * jacobian.gain).backward()
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from reloop.conf.mistakes import ConfigError
from reloop.models import Model
from reloop.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from reloop.models.segment import Span

from .around_segment import AroundSegment

_STEP = 1e-2  # of the state's size: the change of the forward difference


class JacobianGain(AroundSegment):
    """Within this context the model computes `gain` [] beside its predictions, which do not change:
    the mean over prompts of ‖J v‖² / ‖v‖² in a random direction v, with J the Jacobian of the last
    loop: its state after by its state before. Its expectation is the mean of J's squared singular
    values: below 1 a small change shrinks on average.

    J is taken by a forward difference at the state that training has reached, through which no
    gradient goes: it lowers the loop's gain there, and does not move the state.
    """

    def __init__(self, model: Model, noise: Tensor) -> None:
        super().__init__(model)
        self.noise = noise
        self.gain = noise.new_zeros(())

    def __call__(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        """The same steps, those of the window one by one, since the last
        of a segment that keeps streams computes only the tokens that are read."""
        if not span.keep:
            return self._segment(loop, state, e, span, context)
        tokens, end = loop.kept_tokens(context.layout), span.first + span.count
        before = replace(span, count=span.count - span.keep, keep=0)
        state, _ = self._segment(loop, state, e, before, context)
        streams = []
        for t in range(end - span.keep, end - 1):
            state, _ = self._segment(
                loop, state, e, replace(span, first=t, count=1, keep=0), context
            )
            streams.append(state.stream[None, :, tokens])
        last = replace(span, first=end - 1, count=1, keep=1)
        self.gain = self._gain(loop, state, e, replace(last, keep=0), context)
        state, stream = self._segment(loop, state, e, last, context)
        return state, torch.cat((*streams, stream))

    def _gain(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext
    ) -> Tensor:
        if state.carry is not None:
            raise ConfigError(
                "training.jacobian_penalty", "cannot be used: this loop's state has a carry"
            )
        stream = state.stream.detach()
        size = stream.square().mean((1, 2), keepdim=True).sqrt()
        size = torch.where(size > 0, size, 1.0)  # a state before the first loop may be zero
        change = _STEP * size * self.noise
        both = torch.cat((stream, stream + change))
        with torch.autocast(e.device.type, enabled=False):  # bfloat16 would round the difference
            after, _ = self._segment(loop, LoopState(both, both), torch.cat((e, e)), span, context)
        still, moved = after.stream.chunk(2)
        return ((moved - still).square().sum((1, 2)) / change.square().sum((1, 2))).mean()
