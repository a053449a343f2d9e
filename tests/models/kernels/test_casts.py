"""Weights as operands: cast anew in each step, and in each precision."""

import torch

from looplab.models.loops.loop import LoopState
from looplab.models.segment import Span, run_segment
from tests.models.kernels.small_loops import make_pair
from tests.models.kernels.yardstick import Draws, relative_error


def test_a_window_in_another_precision_casts_for_itself(device: torch.device) -> None:
    """What a prefix cast to bfloat16, as with precision=mixed, is not used in float32."""
    model, _ = make_pair(device, None)
    e = Draws(device).normal(2, 7, 32).detach()
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        state, _ = model.run_segment(model.loop, model.loop.start(e), e, Span(0, 3))
    _, ours = model.run_segment(model.loop, state, e, Span(3, 1, keep=1))
    exact = LoopState(state.stream.double(), state.raw.double())
    _, theirs = run_segment(model.double().loop, exact, e.double(), Span(3, 1, keep=1))
    assert relative_error(ours, theirs) < 1e-5
