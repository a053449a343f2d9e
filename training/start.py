"""Weights of another run to begin a training with.

begin_with(model, "runs/tables_prior-looped-seed0-1a2b3c4d")
"""

from looplab.conf.mistakes import ConfigError, one_line
from looplab.conf.saved import unpacked
from looplab.models import Model

from .run_folder.checkpoint import newest_checkpoint

_KEY = "training.start_from"


def begin_with(model: Model, start: str) -> None:
    """Give a new model the weights of the newest checkpoint of the run `start`, those that are
    evaluated. ConfigError, which names the setting, for a run without a checkpoint, and for one
    whose model has other shapes."""
    path = unpacked(start)
    checkpoint, problems = newest_checkpoint(path / "checkpoints")
    if checkpoint is None:
        problem = problems[0] if problems else f"{path} has no checkpoint"
        raise ConfigError(_KEY, f"cannot be {start}: {problem}")
    try:
        model.load_state_dict(checkpoint.weights())
    except RuntimeError as error:
        raise ConfigError(_KEY, f"cannot be {start}: {one_line(error)}") from None
