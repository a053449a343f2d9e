"""Muon for the matrices of blocks, and MuonH, in a form that a CUDA graph can capture.

MuonH keeps each matrix on the sphere of its Frobenius norm (arXiv 2603.28743). arXiv 2604.21106
trains with it.

muon = Muon([{"params": …, "parts": …, "lr": …, "weight_decay": 0.0}])
muon.set_momentum(step)
muon.step(bad)
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# As in the fully looped paper (arXiv 2605.18797).
_MOMENTUM = (0.85, 0.95)
_MOMENTUM_STEPS = 300
_POLYNOMIALS = ((3.4445, -4.7750, 2.0315),) * 5  # Newton and Schulz's
_LEAST = 1e-6  # of a norm that a matrix is divided by
_SPHERE_MOMENTUM = 0.95
# Polar Express (Amsel et al. 2025, arXiv 2505.16932): the polynomials of five steps.
_POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
_MARGIN = 1.02  # of the norm that a matrix is divided by
_LEAST_NORM = 1e-10  # of a norm that something is divided by


class Matrix(NamedTuple):
    """A weight [rows, columns], its rate [], its decay at a rate of 1, its momentum
    [rows, columns], and the rows of its parts."""

    weight: nn.Parameter
    rate: Tensor
    weight_decay: float
    buffer: Tensor
    rows: tuple[int, ...]


class Muon:
    """Nesterov's momentum for matrices, orthogonalised, each part of a fused matrix by itself. A
    graph can capture a step, which changes nothing where a gradient is bad.

    By default an update has five Newton-Schulz steps and is scaled by sqrt(max(1, rows / columns)):
    torch's Muon, which takes its rate as a number of the host, for which it would wait for the
    device. With `keeps_norm` (MuonH) it has the five steps of Polar Express: a matrix of norm R
    moves by lr · R along it, and is scaled back to R.

    A group has its "params", the rows of the "parts" of each, "weight_decay" and "lr", a tensor on
    the device. The decay is decoupled, and of no effect with `keeps_norm`.
    """

    def __init__(self, groups: list[dict[str, Any]], keeps_norm: bool = False) -> None:
        self.param_groups = groups
        self.keeps_norm = keeps_norm
        self.matrices: list[Matrix] = []
        for group in groups:
            for weight, rows in zip(group["params"], group["parts"], strict=True):
                buffer = torch.zeros_like(weight.data)
                matrix = Matrix(weight, group["lr"], group["weight_decay"], buffer, rows)
                self.matrices.append(matrix)
        # On the device, so that a captured step reads its current value.
        self.momentum = torch.zeros_like(groups[0]["lr"])
        self.set_momentum(0)

    def set_momentum(self, step: int) -> None:
        """Set the momentum of step `step`, counted from 0: it rises linearly over the first 300,
        but with `keeps_norm`."""
        first, last = _MOMENTUM
        fraction = min(step / _MOMENTUM_STEPS, 1.0)
        rising = (1 - fraction) * first + fraction * last
        self.momentum.fill_(_SPHERE_MOMENTUM if self.keeps_norm else rising)

    @torch.no_grad()
    def step(self, bad: Tensor) -> None:
        """Update each weight that has a gradient; where `bad` [] is true, weights and momentum do
        not change, for any gradients. Does not wait for the device."""
        for matrix in self.matrices:
            if matrix.weight.grad is not None:
                # `_moved` writes the buffer; on a bad step this copy goes back, with no branch.
                buffer = matrix.buffer.clone()
                moved = self._moved(matrix, matrix.weight.grad)
                matrix.weight.copy_(torch.where(bad, matrix.weight, moved))
                matrix.buffer.copy_(torch.where(bad, buffer, matrix.buffer))

    def _moved(self, matrix: Matrix, gradient: Tensor) -> Tensor:
        """The weight after a step; the matrix's buffer makes it, too."""
        weight = matrix.weight
        rows = list(matrix.rows)
        # m ← μ m + (1 − μ) g, then Nesterov's (1 − μ) g + μ m, both as torch.optim.Muon has them.
        matrix.buffer.lerp_(gradient, 1 - self.momentum)
        updates = gradient.lerp(matrix.buffer, self.momentum).split(rows)
        if self.keeps_norm:
            parts = zip(weight.split(rows), updates, strict=True)
            return torch.cat([_on_sphere(part, update, matrix.rate) for part, update in parts])
        scaled = []
        for update in updates:
            factor = math.sqrt(max(1.0, update.shape[0] / update.shape[1]))
            scaled.append(orthogonalised(update, _POLYNOMIALS, 1.0) * factor)
        # w − lr (decay · w + update), as a lerp: the rate is a device tensor that a graph can read.
        full_step = (1 - matrix.weight_decay) * weight - torch.cat(scaled)
        return weight.lerp(full_step, matrix.rate)


def orthogonalised(
    matrix: Tensor, polynomials: Sequence[tuple[float, float, float]], margin: float
) -> Tensor:
    """Nearly the orthogonal factor of the polar decomposition [rows, columns]: a x + b x³ + c x⁵ of
    the singular values, divided by `margin` norms at first, for each (a, b, c). In bfloat16 on a
    GPU, in float32 on a CPU, where that is the faster, and the same on all processors."""
    x = matrix.bfloat16() if matrix.is_cuda else matrix
    # The Gram matrix of the shorter side is the smaller one.
    wide = x.T if len(x) > x.shape[1] else x
    # The polynomials converge for singular values up to 1, which the Frobenius norm bounds.
    wide = wide / (margin * wide.norm() + _LEAST)
    for a, b, c in polynomials:
        # a X + (b X Xᵀ + c (X Xᵀ)²) X has the singular vectors of X, the polynomial on its values.
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return (wide.T if len(x) > x.shape[1] else wide).to(matrix.dtype)


def _on_sphere(weight: Tensor, update: Tensor, rate: Tensor) -> Tensor:
    """The weight after a step of `rate` of its norm, with the norm that it had."""
    # w ← R · (w − lr R u) / ‖w − lr R u‖, with R = ‖w‖ and a direction u of norm 1.
    norm = weight.norm()
    direction = orthogonalised(update, _POLAR_EXPRESS, _MARGIN)
    moved = weight - direction * (rate * norm / direction.norm().clamp(min=_LEAST_NORM))
    return moved * (norm / moved.norm().clamp(min=_LEAST_NORM))
