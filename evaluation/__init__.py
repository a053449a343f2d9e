"""Errors of a trained model with intervals, beside those of the solvers a user could take."""

from looplab.conf.lazy import importer

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from looplab.training.run_folder.checkpoint import snapshots_of

    from .load import from_pretrained, load_run

__all__ = ["from_pretrained", "load_run", "snapshots_of"]
_MODULES = {
    "from_pretrained": ".load",
    "load_run": ".load",
    "snapshots_of": "looplab.training.run_folder.checkpoint",
}

__getattr__, __dir__ = importer(__name__, _MODULES)
