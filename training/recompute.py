"""Activation checkpointing over loops: the backward pass computes each loop again from its state.

Of all loops the states alone are stored, and the activations of one loop at a time.

with Recompute(model):
    predictions = model(prompts, loops=12, grad_loops=12)
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from looplab.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from looplab.models.segment import Span

from .inside_loops import SegmentHook


class Recompute(SegmentHook):
    """Within this context the loops with gradients store no activations; predictions and gradients
    do not change."""

    def __call__(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        """Make the same steps, those with gradients one by one."""
        if not (span.grad and span.count):
            return self._segment(loop, state, e, span, context)

        def contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
            # The backward pass runs outside of the model's forward.
            return nullcontext(), self.model.backend_context(e.device)

        streams = []
        tokens = loop.kept_tokens(context.layout)
        last = span.first + span.count - 1
        for t in range(span.first, last + 1):
            keep = int(span.keep > 0 and t == last)
            step = Span(t, 1, keep, grad=True)
            # Without the random state: a loop draws nothing, and to save it would cost each loop.
            state, kept = checkpoint(
                self._segment,
                loop,
                state,
                e,
                step,
                context,
                use_reentrant=False,
                preserve_rng_state=False,
                context_fn=contexts,
            )
            if t > last - span.keep:
                # The last step has cut its tokens itself, and has an axis for its one kept stream.
                streams.append(kept[0] if keep else state.stream[:, tokens])
        return state, torch.stack(streams) if streams else e.new_empty(0, *e[:, tokens].shape)
