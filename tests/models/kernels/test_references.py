"""The operations' references are together the block."""

import pytest
import torch

from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels import attention, mlp, norm, projection, qkv
from looplab.models.loops.loop import SharedLoop, StepContext
from tests.models.kernels.yardstick import Draws

DRAWS = Draws(torch.device("cpu"))
BLOCK, NORM = DRAWS.block(4, 2).double(), DRAWS.norm(4).double()
X, E, POSITIONS = (
    DRAWS.normal(*size, dtype=torch.float64) for size in ((2, 3, 4),) * 2 + ((3, 4),)
)


@pytest.mark.parametrize("injection", ["add", "multiply", "none"])
def test_one_after_another_they_are_a_step_of_the_loop(injection: str) -> None:
    loop = SharedLoop(BlockSpec(4, 2, length=3), injection).double()
    loop.blocks[0], loop.norm = BLOCK, NORM
    loop.positions = torch.nn.Parameter(POSITIONS)
    state = loop.start(X)._replace(stream=X)
    expected = loop.step(state, E, 0, StepContext(0.7))
    e, positions = (E if injection != "none" else None), (POSITIONS if injection != "add" else None)
    _, x, heads = qkv.reference(X, e, positions, None, BLOCK.norm_1, BLOCK.qkv)
    x = projection.reference(x, attention.reference(heads, 2), BLOCK.projection, 0.7)
    x = mlp.reference(x, BLOCK, 0.7)
    torch.testing.assert_close(x, expected.raw, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(norm.reference(x, NORM), expected.stream, rtol=1e-12, atol=1e-12)
