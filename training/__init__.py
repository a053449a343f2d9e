"""The training loop, its run folders and checkpoints."""

from .reference.imported import import_checkpoint
from .run_folder.run import Run, RunError
from .signals import Interrupted
from .train import train, train_together

__all__ = ["Interrupted", "Run", "RunError", "import_checkpoint", "train", "train_together"]
