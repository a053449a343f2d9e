"""The one training loop, its run folders and checkpoints."""

from .run import Run, RunError
from .train import Interrupted, train

__all__ = ["Interrupted", "Run", "RunError", "train"]
