"""What training measures inside the loops of a model, without another forward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from torch import Tensor

from reloop.models import Model
from reloop.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from reloop.models.segment import Span


class AroundSegment(ABC):
    """Within this context the model calls this object in place of its `run_segment`, which is in
    `_segment`. A subclass computes the same states and streams, and measures something besides."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __enter__(self) -> Self:
        self._segment = self.model.run_segment
        self.model.run_segment = self
        return self

    def __exit__(self, *raised: object) -> None:
        self.model.run_segment = self._segment

    @abstractmethod
    def __call__(
        self, loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        """As `reloop.models.segment.run_segment`."""
