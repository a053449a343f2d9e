"""Make of a finished run a folder that ships with the project: its configuration and weights, and
nothing of where or beside what it was trained.

ship(Path("runs/NAME"), Path("models/checkpoints/linear"))
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import yaml

from reloop.conf.build import config_to_mapping
from reloop.conf.mistakes import ConfigError
from reloop.conf.saved import read_config
from reloop.conf.schema import Config

from .checkpoint import newest_checkpoint, save_checkpoint
from .files import write_bytes

_KEPT = (
    "task",
    "model",
    "loops",
    "curriculum",
    "training",
    "evaluation",
    "seed",
    "scale",
    "recipe",
)


def ship(run: Path, folder: Path, add: Callable[[Path], None] = lambda folder: None) -> Path:
    """Write `folder` anew, with what `add` puts into it, and give its path. ConfigError, and
    nothing is touched, for a run that is none or is damaged."""
    config = read_config(run)
    checkpoint, problems = newest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise ConfigError(
            "run", "; ".join([f"{run} has no checkpoint that can be read", *problems])
        )
    beside = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    weights = {f"model.{name}": tensor for name, tensor in checkpoint.weights().items()}
    kept = config_to_mapping(Config(**{part: getattr(config, part) for part in _KEPT}))
    save_checkpoint(beside / "checkpoints", checkpoint.step, weights, kept)
    write_bytes(beside / "config.yaml", yaml.safe_dump(kept, sort_keys=False).encode())
    add(beside)
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
    return folder
