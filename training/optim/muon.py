"""Muon for the matrices of blocks: torch's own, in a form that a graph can capture.

muon = BlockMuon([{"params": …, "parts": …, "lr": …, "weight_decay": 0.0}])
muon.set_momentum(step)
muon.step(bad)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Muon

# As in the fully looped paper (arXiv 2605.18797).
_MOMENTUM = (0.85, 0.95)
_MOMENTUM_STEPS = 300
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


def momentum(step: int) -> float:
    """Muon's momentum at step `step`, counted from 0: from 0.85 linearly to 0.95 at step 300."""
    first, last = _MOMENTUM
    fraction = min(step / _MOMENTUM_STEPS, 1.0)
    return (1 - fraction) * first + fraction * last


class Matrix(NamedTuple):
    """A weight [rows, columns], its rate [], its momentum [rows, columns], and the rows of its
    parts."""

    weight: nn.Parameter
    rate: Tensor
    buffer: Tensor
    rows: tuple[int, ...]

    @property
    def gradient(self) -> Tensor:
        """The weight's, which it must have."""
        assert self.weight.grad is not None
        return self.weight.grad

    def split(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Views of the parts of a tensor of the weight's shape."""
        return tensor.split(list(self.rows))


class MatrixMuon(ABC):
    """Orthogonalised momentum for matrices, each part of a fused matrix by itself, in steps that a
    graph can capture and that change nothing where a gradient is bad.

    A group has its "params", the rows of the "parts" of each, "weight_decay" (decoupled) and "lr",
    a tensor on the device.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.param_groups = groups
        self.matrices = [
            _matrix(weight, group["lr"], rows)
            for group in groups
            for weight, rows in zip(group["params"], group["parts"], strict=True)
        ]
        # On the device, so that a captured step reads its current value.
        self.momentum = torch.zeros_like(self.matrices[0].rate)
        self.set_momentum(0)

    @abstractmethod
    def set_momentum(self, step: int) -> None:
        """Set the momentum of step `step`."""

    @abstractmethod
    def moved(self, matrices: Sequence[Matrix]) -> list[Tensor]:
        """The weights after a step; the buffers of the matrices, too, make it."""

    @torch.no_grad()
    def step(self, bad: Tensor) -> None:
        """Update each weight that has a gradient; where `bad` [] is true, weights and momentum do
        not change, for any gradients. Does not wait for the device."""
        matrices = [matrix for matrix in self.matrices if matrix.weight.grad is not None]
        buffers = [matrix.buffer.clone() for matrix in matrices]
        weights = self.moved(matrices)
        for matrix, buffer, moved in zip(matrices, buffers, weights, strict=True):
            matrix.weight.copy_(torch.where(bad, matrix.weight, moved))
            matrix.buffer.copy_(torch.where(bad, buffer, matrix.buffer))


class BlockMuon(MatrixMuon):
    """Nesterov's momentum, orthogonalised by five Newton-Schulz steps in bfloat16 and scaled by
    sqrt(max(1, rows / columns)).

    Muon takes its rate as a number of the host, for which it would wait for the device: therefore
    it steps a copy at rate 1, and the weight moves the fraction `lr` towards the copy. This is the
    same step, decay included.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups)
        # By the weight: a copy that Muon steps, and its parts, which are Muon's parameters.
        self._copies: dict[nn.Parameter, tuple[Tensor, tuple[Tensor, ...]]] = {}
        for matrix in self.matrices:
            copy = torch.zeros_like(matrix.weight, requires_grad=False)
            self._copies[matrix.weight] = copy, matrix.split(copy)
        self.muon = Muon(
            [
                {
                    "params": [part for w in group["params"] for part in self._copies[w][1]],
                    "weight_decay": group["weight_decay"],
                }
                for group in groups
            ],
            lr=1.0,
            nesterov=True,
            ns_coefficients=_COEFFICIENTS,
            ns_steps=_ITERATIONS,
            adjust_lr_fn="original",
        )
        for matrix in self.matrices:
            parts = self._copies[matrix.weight][1]
            for part, buffer in zip(parts, matrix.split(matrix.buffer), strict=True):
                self.muon.state[part]["momentum_buffer"] = buffer
        for group in self.muon.param_groups:
            group["momentum"] = self.momentum

    def set_momentum(self, step: int) -> None:
        self.momentum.fill_(momentum(step))

    def moved(self, matrices: Sequence[Matrix]) -> list[Tensor]:
        for matrix in matrices:
            copy, parts = self._copies[matrix.weight]
            copy.copy_(matrix.weight)
            for part, gradient in zip(parts, matrix.split(matrix.gradient), strict=True):
                part.grad = gradient
        self.muon.step()
        self.muon.zero_grad(set_to_none=True)  # the gradients would keep a graph's memory
        return [
            matrix.weight.lerp(self._copies[matrix.weight][0], matrix.rate) for matrix in matrices
        ]


def _matrix(weight: nn.Parameter, rate: Tensor, rows: tuple[int, ...]) -> Matrix:
    return Matrix(weight, rate, torch.zeros_like(weight, requires_grad=False), rows)
