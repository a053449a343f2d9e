"""Weights of another run to begin a training with; a run keeps the digest of those it began with.

begin_with(model, start)            # "runs/tables_prior-looped-seed0-1a2b3c4d"
keep_start(path, start)             # when training begins
has_new_weights(path, start)        # the start was trained again since
"""

import hashlib
from pathlib import Path

import safetensors.torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import instead_of, unpacked
from looplab.models import Model

from .assemble import misfit
from .run_folder.checkpoint import newest_checkpoint
from .run_folder.files import read_record, write_record

_KEY = "training.start_from"
_NAME = "start"


def begin_with(model: Model, start: str) -> None:
    """Give a new model the weights of the newest checkpoint of the run `start`, those that are
    evaluated. ConfigError, which names the setting, for a run without a checkpoint, and for one
    whose model has other shapes."""
    path = unpacked(start)
    checkpoint, problems = newest_checkpoint(path / "checkpoints")
    if checkpoint is None:
        problem = problems[0] if problems else f"{path} has no checkpoint{instead_of(path)}"
        raise ConfigError(_KEY, f"cannot be {start}: {problem}")
    weights = checkpoint.weights()
    if problem := misfit(model, weights):
        raise ConfigError(_KEY, f"cannot be {start}: its model is another, {problem}")
    model.load_state_dict(weights)


def keep_start(path: Path, start: str) -> None:
    """Keep the digest of the weights that the run in the folder `path` begins with, if any."""
    if digest := _digest(start):
        write_record(path / f"{_NAME}.json", _NAME, {"sha256": digest})


def has_new_weights(path: Path, start: str) -> bool:
    """Says whether `start` has other weights than the run in the folder `path` began with. Of one
    that is gone nobody knows."""
    then = (read_record(path / f"{_NAME}.json", _NAME).content or {}).get("sha256", "")
    if not then:
        return False
    try:
        now = _digest(start)
    except ConfigError:  # it does not ship any more, or cannot be unpacked
        return False
    return now not in ("", then)  # empty: its folder is gone


def _digest(start: str) -> str:
    """The sha256 of the weights of `start`; empty where there are none."""
    checkpoint = newest_checkpoint(unpacked(start) / "checkpoints")[0] if start else None
    if checkpoint is None:
        return ""
    return hashlib.sha256(safetensors.torch.save(checkpoint.weights())).hexdigest()
