"""The model: the blocks, the ways to loop them, read-in and read-out."""

if "." not in __name__:
    raise ImportError("models is a part of looplab: from looplab.models import …")

from .loops.loop import LoopState
from .model import Model
from .queries import Queries
from .spec import ModelSpec

__all__ = ["LoopState", "Model", "ModelSpec", "Queries"]
