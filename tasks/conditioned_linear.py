"""Linear functions of inputs whose covariance has a condition number above 1 (arXiv 2410.21698,
2410.08292)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError

from .linear import Linear
from .random_source import RandomSource
from .task import Prompts, register_task


class Conditioned(NamedTuple):
    """The functions' weights [B, d], and the roots of the inputs' covariances [B, d, d]."""

    weights: Tensor
    root: Tensor


@register_task("conditioned_linear")
@dataclass(frozen=True)
class ConditionedLinear(Linear):
    """y = w·x with x ~ N(0, Σ). Σ has d eigenvalues in geometric progression, the largest
    `condition` = κ times the least, and the trace d.

    With `varied` each prompt has a κ of its own, log-uniform in 1 … `condition`; with `rotated`
    random axes of its own, else Σ is diagonal and falls along the dimensions. w ~ N(0, Σ⁻¹) with
    `whitened`, else N(0, I): the variance of y is d in both cases.

    Shifted inputs (`Shift`) replace these: they are made of standard normal ones.
    """

    condition: float = 1.0
    varied: bool = True
    rotated: bool = True
    whitened: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.condition < 1:
            raise ConfigError("condition", f"must be at least 1, got {self.condition}")

    def parameters(  # type: ignore[override]
        self, random: RandomSource, dims: int
    ) -> Conditioned:
        normal = random.normal(self.dims)
        if self.condition == 1:
            identity = torch.eye(self.dims, dtype=torch.float32, device=normal.device)
            return Conditioned(normal, identity.expand(len(normal), -1, -1))
        # κ^u with u uniform in 0 … 1 is log-uniform in 1 … κ.
        exponent = random.uniform(1) if self.varied else torch.ones_like(normal[:, :1])
        roots = self._eigenvalues(exponent, dims).sqrt()
        axes = None
        if self.rotated:
            axes = _orthogonal(random.normal(self.dims, self.dims)[:, :dims, :dims])
        weights = normal
        # w = Σ^(-1/2) z is N(0, Σ⁻¹) for standard normal z.
        if self.whitened:
            inverse = torch.diag_embed(torch.nn.functional.pad(1 / roots, (0, self.dims - dims)))
            weights = (_turned(inverse, axes) @ normal[:, :, None]).squeeze(2)
        padded = torch.diag_embed(torch.nn.functional.pad(roots, (0, self.dims - dims)))
        return Conditioned(weights, _turned(padded, axes))

    def outputs(self, xs: Tensor, parameters: Conditioned) -> Tensor:  # type: ignore[override]
        return super().outputs(xs, parameters.weights)

    def prompts(
        self, parameters: Conditioned, random: RandomSource, points: int, dims: int
    ) -> Prompts:
        xs = random.normal(points, self.dims)
        if self.condition > 1:  # else they stay standard normal to the bit, in TF32, too
            # The root is symmetric, so that rows z Σ^(1/2) have the covariance Σ.
            xs = xs @ parameters.root
        xs[:, :, dims:].zero_()
        return Prompts(xs, self.noise(self.outputs(xs, parameters), random, dims))

    def covariance(self) -> Tensor:
        """The Σ [d, d] that all prompts share; ValueError where each has its own."""
        if self.varied or self.rotated:
            raise ValueError(f"each prompt of {self} has a covariance of its own")
        return torch.diag(self._eigenvalues(torch.ones(1, 1, dtype=torch.float32), self.dims)[0])

    def _eigenvalues(self, exponent: Tensor, dims: int) -> Tensor:
        """Eigenvalues [B, dims] with a sum of dims, for condition numbers κ^exponent [B, 1]."""
        places = torch.linspace(0, 1, dims, device=exponent.device, dtype=torch.float32)
        values = self.condition ** (-exponent * places)
        # The trace is dims, as of standard normal inputs: E|x|² does not tell κ.
        return values * dims / values.sum(1, keepdim=True)


def _orthogonal(normal: Tensor) -> Tensor:
    """Uniformly random axes [B, d, d], in columns, from standard normal numbers: Gram and Schmidt's
    method, twice for each column, in float64 (a captured step cannot call LAPACK's QR)."""
    columns: list[Tensor] = []
    for column in normal.double().unbind(2):
        for _ in range(2 if columns else 0):
            before = torch.stack(columns, dim=2)
            # The second time removes what rounding has left of the columns before it.
            column = column - (before @ (before.mT @ column[:, :, None])).squeeze(2)
        columns.append(column / column.norm(dim=1, keepdim=True))
    return torch.stack(columns, dim=2).float()


def _turned(diagonal: Tensor, axes: Tensor | None) -> Tensor:
    """The symmetric matrices [B, d, d] with these eigenvalues on these axes; of the hidden
    dimensions all are zero."""
    if axes is None:
        return diagonal
    dims = axes.shape[2]
    hidden = diagonal.shape[2] - axes.shape[2]
    visible = axes @ diagonal[:, :dims, :dims] @ axes.mT
    return torch.nn.functional.pad(visible, (0, hidden, 0, hidden))
