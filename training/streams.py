"""Several trainers whose steps are computed side by side.

group = side_by_side([Trainer(…) for seed in (0, 1, 2)])
group.update(step)                          # for each, the same as its own update(step)
"""

from __future__ import annotations

from collections.abc import Sequence

from .graph import GraphRunner
from .step import Trainer
from .together import Together


class Streams:
    """Trainers on one device, each of which makes its own step on a stream of its own: kernel by
    kernel what it does alone, and so the same numbers. On CUDA the steps of all are one graph."""

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers = list(trainers)
        for trainer in self.trainers:
            trainer.runner.drop()  # frees its memory for the graph of all
        self.runner = GraphRunner(self.trainers[0].runner.recorder)

    def update(self, step: int) -> None:
        """Make step `step` with every trainer."""
        stages, bodies = zip(*(trainer.begin(step) for trainer in self.trainers), strict=True)
        self.runner.run_all(stages, bodies, [trainer.generators for trainer in self.trainers])


def side_by_side(trainers: Sequence[Trainer]) -> Trainer | Streams | Together:
    """What makes the steps of these trainers: one alone itself; several on CUDA by streams, on
    other devices as one computation over stacked weights.

    Raises ValueError, naming the setting, for trainers that cannot be one computation.
    """
    if len(trainers) == 1:
        return trainers[0]
    return Streams(trainers) if trainers[0].device.type == "cuda" else Together(trainers)
