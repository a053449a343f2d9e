"""ErrorSettings each prediction at a loop of its own: the first at which it has settled.

halted = Halting("state", 0.01, latest=12).start(ys); halted.see(loop, errors, changes)
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
    """Halt where the change `on` state or prediction over one loop is at most `tolerance`, and
    after `latest` loops in any case."""

    on: Literal["state", "prediction"]
    tolerance: float
    latest: int

    def start(self, like: Tensor) -> Halted:
        """Nothing has halted yet, for values of the shape of `like`: one of each prediction."""
        return Halted(self, torch.full_like(like, torch.nan), torch.zeros_like(like))


@dataclass
class Halted:
    """Each prediction's value (its error, or itself) where it halted, or at the last loop seen
    until it does; and the loops it has used."""

    rule: Halting
    values: Tensor
    loops: Tensor

    def __post_init__(self) -> None:
        self._going = torch.ones_like(self.values, dtype=torch.bool)

    @property
    def all(self) -> bool:
        """Whether every prediction has halted."""
        return not bool(self._going.any())

    def see(self, loop: int, values: Tensor, changes: Mapping[str, Tensor]) -> None:
        """The values after `loop`, and how far each prediction and its state moved in it."""
        self.values = torch.where(self._going, values, self.values)
        self.loops = torch.where(self._going, float(loop), self.loops)
        settled = changes[f"{self.rule.on}_change"] <= self.rule.tolerance
        self._going &= ~settled & (loop < self.rule.latest)


def changes(
    before: tuple[Tensor, Tensor] | None, now: tuple[Tensor, Tensor], divisor: float
) -> dict[str, Tensor]:
    """How far state [B, n, n_embd] and prediction [B, n] (or logits [B, n, classes]) moved in the
    last loop, [B, n] each: the state's distance over its norm, the prediction's over the standard
    deviation of y. Unknown (nan) without a loop before."""
    (tokens, prediction), shape = now, now[0].shape[:2]
    if before is None:
        unknown = tokens.new_full(shape, torch.nan)
        return {"state_change": unknown, "prediction_change": unknown}
    state = (tokens - before[0]).norm(dim=-1) / tokens.norm(dim=-1)
    moved = (prediction - before[1]).abs().view(*shape, -1).amax(-1)
    return {"state_change": state, "prediction_change": moved / divisor**0.5}


def halted_at(
    errors: NDArray[Any], changes: NDArray[Any], tolerance: float, latest: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Error and loops used, [P] each, of predictions whose errors and changes by loop are
    [P, loops]."""
    settled = changes[:, :latest] <= tolerance
    settled[:, -1] = True
    at = settled.argmax(1)
    return np.take_along_axis(errors, at[:, None], 1)[:, 0], at + 1.0
