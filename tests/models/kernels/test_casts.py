"""Weights as operands: each is cast once a step, and anew in the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from looplab.models.loops.loop import LoopState
from looplab.models.segment import Span, run_segment
from tests.models.kernels.small_loops import make_pair, step
from tests.models.kernels.yardstick import Draws, relative_error


class Casts(TorchDispatchMode):
    """Counts the casts from float32 to bfloat16 of the tensors with the addresses `names`."""

    names: dict[int, str]
    counts: Counter[str]

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.dtype is torch.bfloat16 and isinstance(args[0], Tensor):
            name = self.names.get(args[0].data_ptr())
            if name and args[0].dtype is torch.float32:
                self.counts[name] += 1
        return out


def matrices(model: nn.Module) -> dict[str, Tensor]:
    return {n: p for n, p in model.named_parameters() if n.startswith("loop.") and p.dim() == 2}


@pytest.mark.slow
def test_a_step_with_a_prefix_casts_each_weight_once(device: torch.device) -> None:
    kernels, eager = make_pair(device, torch.bfloat16)
    weights = matrices(kernels)
    products = {n for n in weights if n.endswith("weight")}
    for _ in range(2):
        casts = Casts()  # type: ignore[no-untyped-call]
        casts.names, casts.counts = {weights[n].data_ptr(): n for n in products}, Counter()
        with casts:
            ours = step(kernels, 5, 2, 2)
        assert casts.counts == dict.fromkeys(products, 1)
        theirs = step(eager, 5, 2, 2)
        for name, result in ours.items():
            assert relative_error(result, theirs[name].double()) < 0.05, name
        for model in (kernels, eager):  # the next step is with other weights
            for weight in matrices(model).values():
                weight.data.mul_(-1.5)


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
