"""Weight gradients of many uses of one operation, computed in one product per group of uses.

token = gather([first, second, ...])           # the operations; their results depend on `token`
y = Projection.apply(token, first, 0, x, o)    # use 0 of the first operation
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .common import Compute, float32_product

_MOST_BYTES = 640 * 2**20  # limit of a layer's gathered uses


class Uses(NamedTuple):
    """`number` uses of an operation, run backwards in groups of at most `group`, last use first."""

    number: int
    group: int

    @classmethod
    def of(cls, number: int, rows: int, n_embd: int, compute: Compute) -> Uses:
        """Make as few groups as memory allows, of equal size. A use stores 15 matrices [rows,
        n_embd]: the gradients of q, k and v and of the two branches' outputs, the inputs of two
        products, and four each for the hidden layer and its gradient."""
        most = max(1, _MOST_BYTES // (15 * rows * n_embd * compute.dtype.itemsize))
        groups = -(-number // most)
        return cls(number, -(-number // groups))

    def place(self, use: int) -> tuple[int, int]:
        """The first use of this one's group, and the number of uses in the group."""
        end = self.number - (self.number - 1 - use) // self.group * self.group
        first = max(0, end - self.group)
        return first, end - first


class Operation(ABC):
    """An operation with weights that is used several times: its launches, and what they store for
    the weight gradients, one slot per use.

    `parameters` are the tensors that get gradients.
    """

    parameters: tuple[Tensor, ...]

    def __init__(self, compute: Compute, uses: Uses) -> None:
        self.compute, self.uses = compute, uses
        self._stacks: dict[str, Tensor] = {}
        self._totals: tuple[Tensor, ...] = ()

    def slot(self, name: str, use: int, shape: Sequence[int], like: Tensor) -> Tensor:
        """The slot for `name` of use `use`: uninitialised, of the dtype and device of `like`."""
        first, count = self.uses.place(use)
        if name not in self._stacks:
            self._stacks[name] = like.new_empty(count, *shape)
        return self._stacks[name][use - first]

    def finish(self, use: int) -> None:
        """Called when use `use` has filled its slots; a complete group's gradients are computed."""
        first, count = self.uses.place(use)
        if use > first:
            return
        gradients = self.weight_gradients(first, self._stacks)
        self._stacks = {}
        if first + count == self.uses.number:  # a new pass; drops the totals of the last
            self._totals = gradients
            return
        for total, gradient in zip(self._totals, gradients, strict=True):
            total += gradient

    def gradients(self) -> tuple[Tensor | None, ...]:
        """The gradient of each parameter, once all uses have run backwards; None for all of them
        where none has. Resets the totals."""
        totals, self._totals = self._totals, ()
        return totals or (None,) * len(self.parameters)

    @abstractmethod
    def weight_gradients(self, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """The gradient of each parameter from a group of uses, of which `first` is the first, and
        their slots: by name, stacks [uses, ...]."""


class _Gather(torch.autograd.Function):
    """Returns a token that every use takes. Its backward pass runs after theirs."""

    @staticmethod
    def forward(ctx: Any, operations: list[Operation], *parameters: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.operations = operations
        return parameters[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, _: None) -> tuple[Any, ...]:
        return (None, *(g for operation in ctx.operations for g in operation.gradients()))


def gather(operations: list[Operation]) -> Tensor:
    """A token; uses of `operations` that take it give their weights gradients through it."""
    parameters = [p for operation in operations for p in operation.parameters]
    return _Gather.apply(operations, *parameters)


def weight_product(gradients: Tensor, inputs: Tensor) -> Tensor:
    """Σ gradientᵀ input over uses and rows in float32: [uses, N, out] and [uses, N, in] to
    [out, in]."""
    return float32_product(gradients.flatten(0, 1).T, inputs.flatten(0, 1))
