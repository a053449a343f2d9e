"""MuonH: Muon on the sphere of each matrix's Frobenius norm (arXiv 2603.28743, as arXiv 2604.21106
trains with it).

muon = SphereMuon([{"params": …, "parts": …, "lr": …, "weight_decay": 0.0}])
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .muon import Matrix, MatrixMuon, orthogonalised

_MOMENTUM = 0.95
# Polar Express (Amsel et al. 2025, arXiv 2505.16932): the polynomials of five steps.
_POLYNOMIALS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
_MARGIN = 1.02  # of the norm that a matrix is divided by
_LEAST = 1e-10  # of a norm that something is divided by


class SphereMuon(MatrixMuon):
    """Nesterov's momentum, orthogonalised by the five steps of Polar Express. A matrix of norm R
    moves by lr · R along it, and is scaled back to R."""

    def set_momentum(self, step: int) -> None:
        self.momentum.fill_(_MOMENTUM)

    def moved(self, matrices: Sequence[Matrix]) -> list[Tensor]:
        weights = []
        for matrix in matrices:
            gradient = matrix.gradient
            matrix.buffer.lerp_(gradient, 1 - self.momentum)
            updates = matrix.split(gradient.lerp(matrix.buffer, self.momentum))
            parts = zip(matrix.split(matrix.weight), updates, strict=True)
            weights.append(torch.cat([_on_sphere(w, u, matrix.rate) for w, u in parts]))
        return weights


def _on_sphere(weight: Tensor, update: Tensor, rate: Tensor) -> Tensor:
    """The weight after a step of `rate` of its norm, with the norm that it had."""
    norm, direction = weight.norm(), orthogonalised(update, _POLYNOMIALS, _MARGIN)
    moved = weight - direction * (rate * norm / direction.norm().clamp(min=_LEAST))
    return moved * (norm / moved.norm().clamp(min=_LEAST))
