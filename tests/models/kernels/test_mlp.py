"""The MLP."""

from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.models.kernels.common import Compute
from looplab.models.kernels.gather import Uses
from looplab.models.kernels.mlp import MlpOperation, reference
from tests.models.kernels.shapes import NO_POWER_OF_TWO, ONE_TOKEN, UNEVEN, Shape, shapes
from tests.models.kernels.yardstick import Draws, assert_near

GRADIENTS = ("norm_w", "norm_b", "expand", "expand_b", "contract", "contract_b")


def check(shape: Shape, scale: float, compute: Compute, device: torch.device) -> None:
    """All uses forward, all backward, then the weights' gradients."""
    draws, size = Draws(device), (shape.prompts, shape.length, shape.width)
    block = draws.block(shape.width, shape.heads)
    xs = [draws.normal(*size) for _ in range(shape.uses)]
    operation = MlpOperation(block, compute, Uses(shape.uses, 2), scale)
    with torch.no_grad():
        outs = [operation.forward(x) for x in xs]
        douts = draws.like(*outs)
        dxs = {u: operation.backward(u, xs[u], douts[u]) for u in reversed(range(shape.uses))}
        gradients = operation.gradients()
    ours: dict[str, Tensor | None] = {f"out {u}": out for u, out in enumerate(outs)}
    ours |= {f"dx {u}": dxs[u] for u in range(shape.uses)}
    ours |= dict(zip(GRADIENTS, gradients, strict=True))

    def eager(*arguments: Any) -> list[Tensor]:
        return [reference(x, arguments[-1], scale) for x in arguments[:-1]]

    assert_near(ours, eager, (*xs, block), douts, compute)


@pytest.mark.parametrize("shape", shapes(ONE_TOKEN, UNEVEN, NO_POWER_OF_TWO))
def test_mlp_and_its_gradients_are_near(
    shape: Shape, compute: Compute, device: torch.device
) -> None:
    check(shape, 0.7, compute, device)
