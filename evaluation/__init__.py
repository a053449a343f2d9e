"""Errors of a trained model with intervals, beside those of the solvers a user could take."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from typing import Any

    from reloop.training.run_folder.snapshots import snapshots_of

    from .comparison.measure import compare
    from .evaluate_run import evaluate
    from .load import load_run

__all__ = ["compare", "evaluate", "load_run", "snapshots_of"]

_MODULES = {
    "compare": ".comparison.measure",
    "evaluate": ".evaluate_run",
    "load_run": ".load",
    "snapshots_of": "reloop.training.run_folder.snapshots",
}


def __getattr__(name: str) -> Any:
    """Import on first access: commands of this package report mistakes without torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
