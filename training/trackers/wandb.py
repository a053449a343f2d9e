"""A run's metrics for Weights & Biases. Runs of a grid are one group, $WANDB_RUN_GROUP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reloop.conf.build import config_to_mapping
from reloop.conf.lazy import optional
from reloop.conf.mistakes import ConfigError, RunError
from reloop.conf.schema import Config


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
