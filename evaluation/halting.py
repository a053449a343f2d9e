"""Halting: each prediction is read at its own loop, the first at which it has converged.

halted = Halting("state", 0.01, latest=12).start(ys); halted.update(loop, errors, changes)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

TOLERANCES = tuple(np.logspace(-4, 0, 17).tolist())


@dataclass(frozen=True)
class Halting:
    """Halt once the change of the state or the prediction (`on`) over one loop is at most
    `tolerance`, and after `latest` loops in any case."""

    on: Literal["state", "prediction"]
    tolerance: float
    latest: int

    def start(self, like: Tensor) -> Halted:
        """The initial state: no prediction has halted. `like` has one value per prediction."""
        return Halted(self, torch.full_like(like, torch.nan), torch.zeros_like(like))


@dataclass
class Halted:
    """Each prediction's value (its error, or the prediction itself) where it halted, or at the
    latest loop if it has not; and the number of loops it has used."""

    rule: Halting
    values: Tensor
    loops: Tensor

    def __post_init__(self) -> None:
        self._active = torch.ones_like(self.values, dtype=torch.bool)

    @property
    def all(self) -> bool:
        """Whether every prediction has halted."""
        return not bool(self._active.any())

    def update(self, loop: int, values: Tensor, changes: Mapping[str, Tensor]) -> None:
        """Take the values after `loop`, and the changes of predictions and states over it."""
        self.values = torch.where(self._active, values, self.values)
        self.loops = torch.where(self._active, float(loop), self.loops)
        converged = changes[f"{self.rule.on}_change"] <= self.rule.tolerance
        self._active &= ~converged & (loop < self.rule.latest)


def changes(
    previous: tuple[Tensor, Tensor] | None, current: tuple[Tensor, Tensor], divisor: float
) -> dict[str, Tensor]:
    """Changes of state [B, n, n_embd] and prediction [B, n] (or logits [B, n, classes]) over the
    last loop, [B, n] each: the state's over its norm, the prediction's over the standard deviation
    of y. nan if there is no previous loop."""
    (tokens, prediction), shape = current, current[0].shape[:2]
    if previous is None:
        unknown = tokens.new_full(shape, torch.nan)
        return {"state_change": unknown, "prediction_change": unknown}
    state = (tokens - previous[0]).norm(dim=-1) / tokens.norm(dim=-1)
    change = (prediction - previous[1]).abs().view(*shape, -1).amax(-1)
    return {"state_change": state, "prediction_change": change / divisor**0.5}


def halted_at(
    errors: NDArray[Any], changes: NDArray[Any], tolerance: float, latest: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Error and number of loops used, [P] each, of predictions whose errors and changes by loop
    are [P, loops]."""
    converged = changes[:, :latest] <= tolerance
    converged[:, -1] = True
    index = converged.argmax(1)
    return np.take_along_axis(errors, index[:, None], 1)[:, 0], index + 1.0
