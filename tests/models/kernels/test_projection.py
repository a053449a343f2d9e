"""The attention's output projection."""

from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.models.kernels.common import Compute
from looplab.models.kernels.gather import Uses
from looplab.models.kernels.projection import ProjectionOperation, reference
from tests.models.kernels.shapes import NO_POWER_OF_TWO, ONE_TOKEN, UNEVEN, Shape, shapes
from tests.models.kernels.yardstick import Draws, assert_near

TWO_TILES_WIDE = Shape(2, 3, 160, 5, 1)


@pytest.mark.parametrize("shape", shapes(ONE_TOKEN, UNEVEN, NO_POWER_OF_TWO, TWO_TILES_WIDE))
@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_projection_and_its_gradients_are_near(
    shape: Shape, scale: float, compute: Compute, device: torch.device
) -> None:
    draws, size = Draws(device), (shape.prompts, shape.length, shape.width)
    block, uses = draws.block(shape.width, shape.heads), range(shape.uses)
    operation = ProjectionOperation(block, compute, Uses(shape.uses, 2), scale)
    xs = [draws.normal(*size) for _ in uses]
    mixed = [draws.normal(*size, dtype=compute.dtype) for _ in uses]
    with torch.no_grad():
        for use in uses:  # where attention leaves it
            operation.slot_for_mixed(use, xs[use]).copy_(mixed[use])
        outs = [operation.forward(xs[use], mixed[use]) for use in uses]
        douts = draws.like(*outs)
        dmixed = {use: operation.backward(use, douts[use]) for use in reversed(uses)}
        gradients = operation.gradients()
    ours: dict[str, Tensor | None] = {f"out {use}": outs[use] for use in uses}
    for use in uses:
        ours |= {f"dx {use}": douts[use], f"dmixed {use}": dmixed[use]}  # dx: passed on as it is
    ours |= dict(zip(("dweight", "dbias"), gradients, strict=True))

    def eager(*arguments: Any) -> list[Tensor]:
        layer = arguments[-1]
        pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
        return [reference(x, heads, layer, scale) for x, heads in pairs]

    pairs = [tensor for pair in zip(xs, mixed, strict=True) for tensor in pair]
    assert_near(ours, eager, (*pairs, block.projection), douts, compute)
