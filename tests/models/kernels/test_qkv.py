"""From the stream to q, k and v."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from looplab.models.kernels.common import Compute
from looplab.models.kernels.gather import Uses
from looplab.models.kernels.qkv import QkvOperation, reference
from tests.models.kernels.shapes import (
    EVEN_LENGTH,
    NO_POWER_OF_TWO,
    ONE_TOKEN,
    UNEVEN,
    Shape,
    shapes,
)
from tests.models.kernels.yardstick import Draws, assert_near


class Use(NamedTuple):
    """Whether the source is normed first, and whether it is handed out after that."""

    normed: bool
    keep: bool


PLAIN, NORMED, KEPT = Use(False, False), Use(True, False), Use(True, True)
ENTERING = ("add", "multiply", "none")


def check(
    shape: Shape, injection: str, uses: list[Use], compute: Compute, device: torch.device
) -> None:
    """All uses forward, all backward, then what they share."""
    draws, size = Draws(device), (shape.prompts, shape.length, shape.width)
    block = draws.block(shape.width, shape.heads)
    norm = draws.norm(shape.width) if any(use.normed for use in uses) else None
    e = draws.normal(*size) if injection in ("add", "multiply") else None
    positions = draws.normal(*size[1:]) if injection in ("multiply", "none") else None
    sources = [draws.normal(*size) for _ in uses]
    operation = QkvOperation(
        block,
        compute,
        Uses(len(uses), 2),
        injection=injection,
        e=e,
        positions=positions,
        norm_f=norm,
    )
    with torch.no_grad():
        outs = [operation.forward(s, *use) for s, use in zip(sources, uses, strict=True)]
        cotangents = [draws.like(*out) for out in outs]
        dsources = {}
        for u in reversed(range(len(uses))):
            dx, dqkv, *dkept = cotangents[u]
            rows = dqkv.flatten(0, 1)
            # Where attention leaves them.
            operation.slot("dqkv", u, rows.shape, rows).copy_(rows)
            sums = rows.sum(0, keepdim=True, dtype=torch.float32)
            operation.slot("bias", u, sums.shape, sums).copy_(sums)
            dsources[u] = operation.backward(
                u, sources[u], uses[u].normed, dx, dqkv, dkept[0] if dkept else None
            )
        gradients = operation.gradients()
    names = [
        f"{name} {u}" for u, use in enumerate(uses) for name in ("x", "qkv", "kept")[: 2 + use.keep]
    ]
    ours: dict[str, Tensor | None] = dict(
        zip(names, [tensor for out in outs for tensor in out], strict=True)
    )
    ours |= {f"dsource {u}": dsources[u] for u in range(len(uses))}
    ours |= {f"gradient {i}": gradient for i, gradient in enumerate(gradients)}

    def eager(*arguments: Any) -> list[Tensor]:
        outputs = []
        e_, positions_, norm_, *own = arguments[len(uses) :]
        for source, use in zip(arguments, uses, strict=False):
            y, *rest = reference(source, e_, positions_, norm_ if use.normed else None, *own)
            outputs += [*rest, y[:, ::2]] if use.keep else rest
        return outputs

    arguments = (*sources, e, positions, norm, block.norm_1, block.qkv)
    assert_near(ours, eager, arguments, [c for some in cotangents for c in some], compute)


@pytest.mark.parametrize("shape", shapes(UNEVEN, EVEN_LENGTH, slow=(ONE_TOKEN, NO_POWER_OF_TWO)))
@pytest.mark.parametrize("injection", ENTERING)
def test_every_injection_and_its_gradients_are_near(
    shape: Shape, injection: str, compute: Compute, device: torch.device
) -> None:
    """Uses as a loop makes them: first from its start, then from unnormed streams."""
    check(shape, injection, [PLAIN, NORMED, KEPT], compute, device)


@pytest.mark.parametrize("shape", shapes(UNEVEN, NO_POWER_OF_TWO))
def test_a_layer_that_no_prompt_enters_and_its_gradients_are_near(
    shape: Shape, compute: Compute, device: torch.device
) -> None:
    check(shape, "inner", [PLAIN] * shape.uses, compute, device)
