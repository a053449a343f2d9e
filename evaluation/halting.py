"""Reading each prediction at a loop of its own: the first at which it has settled.

halted = Halting("prediction", 0.01).start(ys); halted.see(loop, errors, changes)
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
    """Halt where the change `on` state or prediction over one loop is at most `tolerance`."""

    on: Literal["state", "prediction"]
    tolerance: float

    def start(self, like: Tensor) -> Halted:
        """Nothing has halted yet, for predictions of the shape of `like`."""
        return Halted(self, torch.full_like(like, torch.nan), torch.zeros_like(like))


@dataclass
class Halted:
    """Each prediction's error where it halted (at the last loop seen, until it does) and the loops
    it has used."""

    rule: Halting
    errors: Tensor
    loops: Tensor

    def __post_init__(self) -> None:
        self._going = torch.ones_like(self.errors, dtype=torch.bool)

    def see(self, loop: int, errors: Tensor, changes: Mapping[str, Tensor]) -> None:
        """The errors after `loop`, and how far each prediction and its state moved in it."""
        self.errors = torch.where(self._going, errors, self.errors)
        self.loops = torch.where(self._going, float(loop), self.loops)
        self._going &= ~(changes[f"{self.rule.on}_change"] <= self.rule.tolerance)


def halted_at(
    errors: NDArray[Any], changes: NDArray[Any], tolerance: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Error and loops used, [P] each, of predictions whose errors and changes by loop are
    [P, loops]."""
    settled = changes <= tolerance
    settled[:, -1] = True
    at = settled.argmax(1)
    return np.take_along_axis(errors, at[:, None], 1)[:, 0], at + 1.0
