"""Transfer to real tables, and trained models as scikit-learn estimators.

from looplab.openml_eval import LoopedClassifier, LoopedRegressor
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from typing import Any

    from .estimators import LoopedClassifier, LoopedRegressor

__all__ = ["LoopedClassifier", "LoopedRegressor"]


def __getattr__(name: str) -> Any:
    """Import on first access: commands of this package report mistakes without torch."""
    if name in __all__:
        return getattr(import_module(".estimators", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
