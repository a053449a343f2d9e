"""The base class of tasks with two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .task import Task


@dataclass(frozen=True)
class Classification(Task):
    """A task whose ys are label tokens (`labels`): -1 for class 0, 1 for class 1. Its errors are
    error rates.

    The reference's OpenML code has 0 and 1, so that class 0's token is all zeros: a small model
    that learns one-dimensional halfspaces within 500 steps from -1 and 1 does not within 1,500
    from 0 and 1.
    """

    loss = "cross_entropy"
    classes = 2
    baselines: ClassVar[tuple[str, ...]] = ("majority", "nearest_neighbours", "least_squares")

    @property
    def divisor(self) -> float:
        return 1.0
