"""Programs that show a run's metrics while it trains, besides metrics.jsonl: Weights & Biases and
TensorBoard.

trackers = Trackers(config, folder, step=0); trackers.log(100, {"loss": 0.5})
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reloop.conf.schema import Config

from .tensorboard import TensorBoard, check_tensorboard
from .wandb import check_wandb, start_wandb


def check_trackers(config: Config) -> None:
    """Raises ConfigError for a tracker that is not installed, or would ask for a login."""
    check_wandb(config.wandb)
    if config.tensorboard:
        check_tensorboard()


class Trackers:
    """Those that a configuration asks for, from `step` on: what they have of later steps, of a
    training that was killed, is replaced."""

    def __init__(self, config: Config, folder: Path, step: int) -> None:
        self._wandb: Any = start_wandb(config, folder)
        self._tensorboard = TensorBoard(folder, step) if config.tensorboard else None

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Add the values of a record of metrics.jsonl."""
        if self._wandb is not None:
            self._wandb.log(dict(values), step=step)
        if self._tensorboard is not None:
            self._tensorboard.log(step, values)

    def rewind(self, step: int) -> None:
        """Go back to an earlier step."""
        if self._tensorboard is not None:
            self._tensorboard.rewind(step)

    def close(self) -> None:
        """End their logs."""
        if self._wandb is not None:
            self._wandb.finish()
        if self._tensorboard is not None:
            self._tensorboard.close()
