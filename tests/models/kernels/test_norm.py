"""The loop's final norm."""

import pytest
import torch

from looplab.models.kernels.common import Compute
from looplab.models.kernels.norm import NormOperation, reference
from tests.models.kernels.shapes import NO_POWER_OF_TWO, ONE_TOKEN, UNEVEN, Shape, shapes
from tests.models.kernels.yardstick import Draws, assert_near


@pytest.mark.parametrize("shape", shapes(ONE_TOKEN, UNEVEN, NO_POWER_OF_TWO))
def test_norm_and_its_gradients_are_near(shape: Shape, device: torch.device) -> None:
    compute, draws = Compute(torch.float32), Draws(device)
    norm, x = draws.norm(shape.width), draws.normal(shape.prompts, shape.length, shape.width)
    operation = NormOperation(norm, compute)
    with torch.no_grad():
        out = operation.forward(x)
        (dout,) = draws.like(out)
        dx = operation.backward(x, dout)
        dweight, dbias = operation.gradients()
    assert dweight is not None
    assert dbias is not None
    ours = {"out": out, "dx": dx, "dweight": dweight, "dbias": dbias}
    assert_near(ours, lambda *a: (reference(*a),), (x, norm), [dout], compute)
