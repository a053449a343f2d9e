"""Weight gradients of many uses of one operation, each weight's taken in one product at the end.

token = gather([first, second, ...])           # the operations; what they make depends on `token`
y = Projection.apply(token, first, 0, x, o)    # use 0 of the first operation
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .common import Compute


class Operation(ABC):
    """An operation with weights that is used `uses` times: its launches and what they leave for the
    weight gradients, one slot a use.

    `parameters` are the tensors that gradients are wanted for.
    """

    parameters: tuple[Tensor, ...]

    def __init__(self, compute: Compute, uses: int) -> None:
        self.compute, self.uses = compute, uses
        self._stacks: dict[str, Tensor] = {}

    def slot(self, name: str, use: int, shape: Sequence[int], like: Tensor) -> Tensor:
        """Where use `use` leaves its `name`: uninitialised, of the dtype and device of `like`."""
        if name not in self._stacks:
            self._stacks[name] = like.new_empty(self.uses, *shape)
        return self._stacks[name][use]

    def stack(self, name: str) -> Tensor:
        """What all uses left, [uses, ...]."""
        return self._stacks[name]

    @abstractmethod
    def gradients(self) -> tuple[Tensor | None, ...]:
        """The gradient of each parameter, once all uses have run backwards."""


class _Gather(torch.autograd.Function):
    """Hands out a token that every use takes. Its backward pass runs when theirs have."""

    @staticmethod
    def forward(ctx: Any, operations: list[Operation], *parameters: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.operations = operations
        return parameters[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, _: None) -> tuple[Any, ...]:
        gradients = [g for operation in ctx.operations for g in operation.gradients()]
        return (None, *gradients)


def gather(operations: list[Operation]) -> Tensor:
    """A token; uses of `operations` that take it give their weights gradients through it."""
    parameters = [p for operation in operations for p in operation.parameters]
    return _Gather.apply(operations, *parameters)


def weight_product(gradients: Tensor, inputs: Tensor) -> Tensor:
    """Σ gradientᵀ input over uses and rows in float32: [uses, N, out] and [uses, N, in] to
    [out, in]."""
    left, right = gradients.flatten(0, 1).T, inputs.flatten(0, 1)
    if left.is_cuda and left.dtype is torch.bfloat16:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()
