"""What a trained model is worth: its errors with intervals, beside what else a user could take."""

from .compare import compare
from .evaluate import evaluate
from .load import load_run

__all__ = ["compare", "evaluate", "load_run"]
