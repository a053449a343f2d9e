"""Make a folder that ships with the project from a finished run: its configuration and weights,
without its environment.

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
from .data import copy_kept
from .files import write_bytes

_GROUPS = (
    *("task", "model", "loops", "curriculum", "training", "evaluation"),
    *("seed", "scale", "recipe"),
)


def ship(run: Path, folder: Path, add: Callable[[Path], None] = lambda folder: None) -> Path:
    """Replace `folder`, with the files that `add` writes to it; its path. Raises ConfigError,
    before anything is written, for a folder that is no run or is damaged."""
    config = read_config(run)
    checkpoint, problems = newest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        problem = f"{run} has no checkpoint that can be read"
        raise ConfigError("run", "; ".join([problem, *problems]))
    temporary = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    weights = {f"model.{name}": tensor for name, tensor in checkpoint.weights().items()}
    mapping = config_to_mapping(Config(**{part: getattr(config, part) for part in _GROUPS}))
    save_checkpoint(temporary / "checkpoints", checkpoint.step, weights, mapping)
    write_bytes(temporary / "config.yaml", yaml.safe_dump(mapping, sort_keys=False).encode())
    copy_kept(run, temporary)
    add(temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return folder
