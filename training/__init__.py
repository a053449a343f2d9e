"""The training loop, its run folders and checkpoints."""

if "." not in __name__:
    raise ImportError("training is a part of looplab: from looplab.training import …")

from looplab.conf.lazy import importer

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from .callbacks import Callback, EarlyStopping
    from .loop import train
    from .reference.imported import import_checkpoint
    from .run_folder.run import Run, RunError
    from .signals import Interrupted

__all__ = [
    "Callback",
    "EarlyStopping",
    "Interrupted",
    "Run",
    "RunError",
    "import_checkpoint",
    "train",
]

_MODULES = {
    "Callback": ".callbacks",
    "EarlyStopping": ".callbacks",
    "Interrupted": ".signals",
    "Run": ".run_folder.run",
    "RunError": ".run_folder.run",
    "import_checkpoint": ".reference.imported",
    "train": ".loop",
}

__getattr__, __dir__ = importer(__name__, _MODULES)
