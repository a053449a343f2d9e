"""The training loop, its run folders and checkpoints."""

if "." not in __name__:
    raise ImportError("training is a part of looplab: from looplab.training import …")

from looplab.conf.lazy import importer

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from .loop import train
    from .reference.imported import import_checkpoint
    from .run_folder.run import Run, RunError
    from .signals import Interrupted

__all__ = ["Interrupted", "Run", "RunError", "import_checkpoint", "train"]

_MODULES = {
    "Interrupted": ".signals",
    "Run": ".run_folder.run",
    "RunError": ".run_folder.run",
    "import_checkpoint": ".reference.imported",
    "train": ".loop",
}

__getattr__ = importer(__name__, _MODULES)
