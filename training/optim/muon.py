"""Muon for the matrices of blocks: torch's own, in a form that a graph can capture.

muon = BlockMuon([{"params": …, "parts": …, "lr": …, "weight_decay": 0.0}])
muon.set_momentum(step)
muon.step(bad)
"""

from __future__ import annotations

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


class _Matrix(NamedTuple):
    """A weight [rows, columns] and its state, of the same shape."""

    weight: nn.Parameter
    rate: Tensor
    stepped: Tensor  # a copy that Muon steps at rate 1
    buffer: Tensor  # the momentum
    parts: tuple[Tensor, ...]  # views of `stepped`, which are Muon's parameters

    def split(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Views of the parts of a tensor of the weight's shape."""
        return tensor.split([len(part) for part in self.parts])


class BlockMuon:
    """Nesterov's momentum, orthogonalised by five Newton-Schulz steps in bfloat16 and scaled by
    sqrt(max(1, rows / columns)); each part of a fused matrix by itself.

    A group has its "params", the rows of the "parts" of each, "weight_decay" (decoupled) and "lr",
    a tensor on the device. Muon takes its rate as a number of the host, for which it would wait for
    the device: therefore it steps a copy at rate 1, and the weight moves the fraction `lr` towards
    the copy. This is the same step, decay included.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.param_groups = groups
        self.matrices: list[_Matrix] = []
        muon_groups = []
        for group in groups:
            matrices = [
                _matrix(weight, group["lr"], rows)
                for weight, rows in zip(group["params"], group["parts"], strict=True)
            ]
            parts = [part for matrix in matrices for part in matrix.parts]
            muon_groups.append({"params": parts, "weight_decay": group["weight_decay"]})
            self.matrices += matrices
        self.muon = Muon(
            muon_groups,
            lr=1.0,
            nesterov=True,
            ns_coefficients=_COEFFICIENTS,
            ns_steps=_ITERATIONS,
            adjust_lr_fn="original",
        )
        for matrix in self.matrices:
            for part, buffer in zip(matrix.parts, matrix.split(matrix.buffer), strict=True):
                self.muon.state[part]["momentum_buffer"] = buffer
        # On the device, so that a captured step reads its current value.
        self.momentum = torch.zeros_like(self.matrices[0].rate)
        for group in self.muon.param_groups:
            group["momentum"] = self.momentum
        self.set_momentum(0)

    def set_momentum(self, step: int) -> None:
        """Set the momentum of step `step`."""
        self.momentum.fill_(momentum(step))

    @torch.no_grad()
    def step(self, bad: Tensor) -> None:
        """Update each weight that has a gradient; where `bad` [] is true, weights and momentum do
        not change, for any gradients. Does not wait for the device."""
        matrices, buffers = [], []
        for matrix in self.matrices:
            if matrix.weight.grad is None:
                continue
            matrices.append(matrix)
            buffers.append(matrix.buffer.clone())
            matrix.stepped.copy_(matrix.weight)
            gradients = matrix.split(matrix.weight.grad)
            for part, gradient in zip(matrix.parts, gradients, strict=True):
                part.grad = gradient
        self.muon.step()
        for matrix, buffer in zip(matrices, buffers, strict=True):
            weight, rate = matrix.weight, matrix.rate
            weight.copy_(torch.where(bad, weight, weight.lerp(matrix.stepped, rate)))
            matrix.buffer.copy_(torch.where(bad, buffer, matrix.buffer))
        self.muon.zero_grad(set_to_none=True)  # the gradients would keep a graph's memory


def _matrix(weight: nn.Parameter, rate: Tensor, rows: tuple[int, ...]) -> _Matrix:
    stepped = torch.zeros_like(weight, requires_grad=False)
    return _Matrix(weight, rate, stepped, torch.zeros_like(stepped), stepped.split(rows))
