"""Measurements inside the loops of a model in training, without another forward pass.

Norms show an unstable training early (arXiv 2605.18797). The gain says how much the last loop
enlarges a small change of its state. `training.jacobian_penalty` weighs it in the loss, as Bai et
al. 2021 do for equilibrium models (arXiv 2106.14342).

with JacobianGain(model, noise) as jacobian:        # noise [B, S, n_embd], standard normal
    predictions = model(prompts, 12, 4)
(loss + weight * jacobian.gain).backward()
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.models import Model
from looplab.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from looplab.models.queries import ALL_TOKENS
from looplab.models.segment import Span

# The names in metrics.jsonl: of the norms of a ResidualNorms, of those of gradients, and of the
# gain of a JacobianGain.
RESIDUAL_NORMS = ("first_residual", "last_residual")
_PARTS = {  # of a model, by the beginnings of their parameters' names
    "mlp": ("loop.blocks.0.mlp.", "loop.blocks.0.expand.", "loop.blocks.0.contract."),
    "attention": ("loop.blocks.0.attention.", "loop.blocks.0.qkv.", "loop.blocks.0.projection."),
    "head": ("read_out.",),
}
GRADIENT_NORMS = ("mlp_grad_norm", "attention_grad_norm", "head_grad_norm", "mlp_grad_norm_clipped")
GAIN = "jacobian_gain"
_STEP = 1e-2  # of the state's size: the change of the forward difference


class SegmentHook:
    """Within this context the model calls this object in place of its `run_segment`, which is in
    `_segment`. A subclass computes the same states and streams, and measures something besides."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __enter__(self) -> Self:
        self._segment = self.model.run_segment
        self.model.run_segment = self
        return self

    def __exit__(self, *raised: object) -> None:
        self.model.run_segment = self._segment

    def __call__(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        """Run the segment, as `looplab.models.segment.run_segment`."""
        return self._segment(loop, state, e, span, context)


class ResidualNorms(SegmentHook):
    """Within this context the model records the norms of its residual stream before any norm layer.
    `norms` [2] has those after the first loop and after the last: means over prompts and the tokens
    that the read-out needs, those of the predictions or, before a coda, all (the paper: all). The
    model's results do not change."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.norms = torch.zeros(2, dtype=torch.float32)
        self._first = torch.zeros((), dtype=torch.float32)

    def __call__(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        """Make the same steps, the first loop separately."""
        streams = []
        if span.first == 0 and span.count > 1:
            tokens = loop.kept_tokens(context.layout)
            state, _ = self._segment(loop, state, e, replace(span, count=1, keep=0), context)
            self._first = _mean_norm(state.raw[:, tokens])
            # The first loop is in the window only where the window is all of the segment.
            if span.keep == span.count:
                streams.append(state.stream[None, :, tokens])
            keep = min(span.keep, span.count - 1)
            span = replace(span, first=1, count=span.count - 1, keep=keep)
        state, rest = self._segment(loop, state, e, span, context)
        if span.first == 0 and span.count == 1:
            # A segment that keeps streams has already cut its last state to these (segment.py).
            tokens = ALL_TOKENS if span.keep else loop.kept_tokens(context.layout)
            self._first = _mean_norm(state.raw[:, tokens])
        if span.keep:
            self.norms = torch.stack((self._first, _mean_norm(state.raw)))
        streams.append(rest)
        return state, torch.cat(streams) if len(streams) > 1 else rest


def parts_of(model: Model) -> list[list[torch.nn.Parameter]]:
    """The parameters of the first block's MLP, of its attention, and of the head: those whose
    gradients have the `GRADIENT_NORMS`, of which the last is the first one's once more, clipped."""
    parts = []
    for beginnings in _PARTS.values():
        named = model.named_parameters()
        parts.append([parameter for name, parameter in named if name.startswith(beginnings)])
    if model.spec.tied_head:
        parts[-1] = [*model.read_in.parameters()]  # the head's matrix is the embedding
    return parts


def gradient_norm(parameters: Iterable[torch.nn.Parameter]) -> Tensor:
    """The norm of these parameters' gradients, []."""
    return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])


def _mean_norm(raw: Tensor) -> Tensor:
    return torch.linalg.vector_norm(raw.detach().float(), dim=-1).mean()


class JacobianGain(SegmentHook):
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
        """Make the same steps, those of the window one by one: the last loop of a segment that
        keeps streams computes only the tokens that are read."""
        if not span.keep:
            return self._segment(loop, state, e, span, context)
        tokens = loop.kept_tokens(context.layout)
        end = span.first + span.count
        before = replace(span, count=span.count - span.keep, keep=0)
        state, _ = self._segment(loop, state, e, before, context)
        streams = []
        for t in range(end - span.keep, end - 1):
            state, _ = self._segment(
                loop, state, e, replace(span, first=t, count=1, keep=0), context
            )
            streams.append(state.stream[None, :, tokens])
        last = replace(span, first=end - 1, count=1, keep=1)
        # Measured before it is made, at all tokens, since J is that of the whole state.
        self.gain = self._gain(loop, state, e, replace(last, keep=0), context)
        state, stream = self._segment(loop, state, e, last, context)
        streams.append(stream)
        return state, torch.cat(streams)

    def _gain(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext
    ) -> Tensor:
        if state.carry is not None:
            raise ConfigError(
                "training.jacobian_penalty", "cannot be used: this loop's state has a carry"
            )
        stream = state.stream.detach()
        # The root mean square of each prompt's state, [B, 1, 1].
        size = stream.square().mean((1, 2), keepdim=True).sqrt()
        size = torch.where(size > 0, size, 1.0)  # a state before the first loop may be zero
        change = _STEP * size * self.noise
        # Both states in one pass over a batch of 2 B; e is the same for either.
        both = torch.cat((stream, stream + change))
        with torch.autocast(e.device.type, enabled=False):  # bfloat16 would round the difference
            after, _ = self._segment(loop, LoopState(both, both), torch.cat((e, e)), span, context)
        still, moved = after.stream.chunk(2)
        # ‖J v‖² / ‖v‖², where `moved - still` is J v for v = `change` up to the second order.
        return ((moved - still).square().sum((1, 2)) / change.square().sum((1, 2))).mean()
