"""Read a trained model from a run folder, or from a checkpoint in one, without its task's data.

trained = read_model("runs/NAME", classes=0)
"""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path

from reloop.conf.mistakes import ConfigError, RunError
from reloop.conf.shipped import unpacked
from reloop.evaluation.load import LoadedModel, load_model

SHIPPED = Path(__file__).parent / "checkpoints"
_KINDS = {0: "a regressor", 2: "a classifier of two classes"}


def shipped(name: str) -> Path:
    """The run folder that ships with the project under a name; ConfigError if it is missing."""
    path = SHIPPED / name
    if not path.is_dir():
        raise ConfigError("checkpoint", f"must be given: {path} is not there")
    return path


def read_model(path: str | PathLike[str], classes: int) -> LoadedModel:
    """The model of a run folder (its newest undamaged checkpoint) or of one checkpoint in it; its
    task's data are not needed.

    Issues a UserWarning for a damaged or altered file that has a replacement. Raises ConfigError,
    one line, for a path that is neither, a damaged checkpoint, and a model with another number of
    `classes` (0: a regression).
    """
    if not unpacked(path).exists():
        raise ConfigError("checkpoint", f"{path} does not exist")
    try:
        loaded = load_model(path, _warn)
    except RunError as error:
        raise ConfigError("checkpoint", str(error)) from None
    if loaded.classes != classes:
        kind = _KINDS.get(loaded.classes, f"a classifier of {loaded.classes} classes")
        raise ConfigError("checkpoint", f"{path} is {kind}, and {_KINDS[classes]} is needed")
    loaded.model.requires_grad_(False)
    return loaded


def _warn(line: str) -> None:
    warnings.warn(line, UserWarning, stacklevel=4)
