"""The models of the estimators: read without their task's data, and made ones that ship.

trained = read_model("runs/NAME", classes=0)
print(ship_run(ShipSettings("runs/NAME", "classifier")))
"""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.saved import unpacked
from looplab.evaluation.load import LoadedModel, load_model
from looplab.training.run_folder.copies import ship as ship_folder

from .settings import SHIPPED_CLASSES, ShipSettings

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


def ship(run: Path, name: str) -> Path:
    """Write openml_eval/checkpoints/<name>/ and return its path. ConfigError, before anything is
    written, for a folder that is no run, is damaged, or is of the other kind."""
    read_model(run, SHIPPED_CLASSES[name])
    return ship_folder(run, SHIPPED / name)


def ship_run(settings: ShipSettings) -> str:
    """As `ship`; returns a line on what was written."""
    folder = ship(Path(settings.run), settings.name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder}: {size:,} bytes"


def _warn(line: str) -> None:
    warnings.warn(line, UserWarning, stacklevel=4)
