"""The one training loop, its run folders and checkpoints."""

from .reference.imported import import_checkpoint
from .run_folder.run import Run, RunError
from .train import Interrupted, train

__all__ = ["Interrupted", "Run", "RunError", "import_checkpoint", "train"]
