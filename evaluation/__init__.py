"""What a trained model is worth: its errors with intervals, beside the baselines."""

from .evaluate import evaluate
from .load import load_run

__all__ = ["evaluate", "load_run"]
