"""Programs that show a run's metrics while it trains, besides metrics.jsonl: Weights & Biases and
TensorBoard.

trackers = Trackers(config, folder, step=0); trackers.log(100, {"loss": 0.5})
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reloop.conf.build import config_to_mapping
from reloop.conf.lazy import optional
from reloop.conf.mistakes import ConfigError, RunError
from reloop.conf.schema import Config


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


def check_tensorboard() -> None:
    """Raises ConfigError where tensorboard is not installed."""
    optional("tensorboard", "tensorboard", "__version__", "tensorboard")


class TensorBoard:
    """Scalars by step in the folder tensorboard/ (`tensorboard --logdir runs`); those after
    `step`, which an earlier process wrote, are dropped."""

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


def check_wandb(mode: str) -> None:
    """Raises ConfigError where wandb is not installed, or would ask for a login."""
    if mode == "disabled":
        return
    wandb = optional("wandb", "wandb", "init", "wandb")
    if mode == "online" and not wandb.login(prompt=False, verify=False):
        problem = "cannot be online: no account here (set WANDB_API_KEY, or wandb=offline)"
        raise ConfigError("wandb", problem)


def start_wandb(config: Config, folder: Path) -> Any:
    """The run of wandb, which goes on with that of the same folder; None where it is disabled.
    Raises RunError where it cannot be reached."""
    if config.wandb == "disabled":
        return None
    import wandb

    try:
        return wandb.init(
            project="reloop",
            name=folder.name,
            id=folder.name,
            resume="allow",
            mode=config.wandb,
            dir=folder,
            config=config_to_mapping(config),
        )
    except wandb.errors.Error as error:
        raise RunError(
            f"wandb cannot be reached ({error}); wandb=offline needs no network"
        ) from None
