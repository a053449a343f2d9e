"""A run's metrics for TensorBoard, in its folder tensorboard/: `tensorboard --logdir runs`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reloop.conf.lazy import optional


def check_tensorboard() -> None:
    """Raises ConfigError where tensorboard is not installed."""
    optional("tensorboard", "tensorboard", "__version__", "tensorboard")


class TensorBoard:
    """Scalars by step; those of steps after `step` that an earlier process wrote are dropped."""

    def __init__(self, folder: Path, step: int) -> None:
        self._folder = folder / "tensorboard"
        self._open(step)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Add each number that is finite."""
        for name, value in values.items():
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if name != "step" and is_number:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def rewind(self, step: int) -> None:
        """Drop what was added after this step."""
        self.close()
        self._open(step)

    def close(self) -> None:
        """End the log."""
        self._writer.close()

    def _open(self, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(self._folder), purge_step=step + 1)
