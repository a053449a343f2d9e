"""Read a trained model from a run folder, or from a checkpoint in one, and nothing else of the run.

trained = read_model("runs/NAME", classes=0)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from reloop.conf.build import config_from_mapping
from reloop.conf.mistakes import ConfigError
from reloop.conf.saved import read_mapping
from reloop.conf.schema import Config
from reloop.conf.shipped import unpacked
from reloop.models import Model
from reloop.training.assemble import model_from, trained_loops
from reloop.training.run_folder.checkpoint import (
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    newest_checkpoint,
)

SHIPPED = Path(__file__).parent / "checkpoints"
_KINDS = {0: "a regressor", 2: "a classifier of two classes"}


@dataclass(frozen=True)
class Trained:
    """A trained model, on the CPU and in eval mode, and the configuration of its run."""

    path: Path
    config: Config
    model: Model

    @property
    def loops(self) -> int:
        """b: the loops it was trained to make; a standard model's layers."""
        return trained_loops(self.config)

    @property
    def context(self) -> int:
        """The examples that its longest prompts held in training, beside the query."""
        return min(self.config.task.points, self.model.spec.n_positions) - 1


def shipped(name: str) -> Path:
    """The run folder that comes with the project under a name; ConfigError where it is absent."""
    path = SHIPPED / name
    if not path.is_dir():
        raise ConfigError("checkpoint", f"must be given: {path} is not there")
    return path


def read_model(path: str | PathLike[str], classes: int) -> Trained:
    """The model of a run folder (its newest good checkpoint) or of one checkpoint in it, made from
    configuration and weights alone: a task's data need not be there.

    What was damaged or altered, and for which there is something else to take, is a UserWarning.
    Raises ConfigError, one line, for a path that is neither, a damaged checkpoint, and a model of
    another number of `classes` (0: a regression).
    """
    path = unpacked(path)
    is_file = path.suffix == ".safetensors"
    folder = path.parent.parent if is_file else path
    if not path.exists():
        raise ConfigError("checkpoint", f"{path} does not exist")
    mapping = read_mapping(folder, _warn)
    config = config_from_mapping(mapping)
    weights = _checkpoint(path, is_file, mapping).weights()
    outputs = len(weights["read_out.bias"]) if "read_out.bias" in weights else 0
    found = 0 if outputs == 1 else outputs
    if outputs and found != classes:
        kind = _KINDS.get(found, f"a classifier of {found} classes")
        raise ConfigError("checkpoint", f"{path} is {kind}, and {_KINDS[classes]} is needed")
    try:
        model = model_from(config, classes, weights)
    except CheckpointError as error:
        raise ConfigError("checkpoint", f"{path} {error}") from None
    return Trained(path, config, model.requires_grad_(False))


def _checkpoint(path: Path, is_file: bool, mapping: Mapping[str, Any]) -> Checkpoint:
    try:
        if is_file:
            return load_checkpoint(path)
    except CheckpointError as error:
        raise ConfigError("checkpoint", str(error)) from None
    checkpoint, problems = newest_checkpoint(path / "checkpoints", mapping)
    if checkpoint is None:
        reasons = "; ".join([f"{path} holds none that can be read", *problems])
        raise ConfigError("checkpoint", reasons)
    for problem in problems:
        _warn(f"{problem}; the one of step {checkpoint.step} is used")
    return checkpoint


def _warn(line: str) -> None:
    warnings.warn(line, UserWarning, stacklevel=4)
