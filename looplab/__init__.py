"""In-context learning with looped transformers: train, evaluate and look inside.

from looplab import Config, evaluate, plot, train

run = train(Config.of("task=sparse_linear", "seed=1"))
evaluate(run)
plot(run)

The modules are looplab.tasks, looplab.models, looplab.training and so on: in a checkout these are
the folders beside this one, in an installed package those within it.

Import it before torch. Its one side effect is that PyTorch's idle threads then wait only briefly
for work, see conf/threads.py.
"""

__version__ = "0.1.0"  # pyproject.toml reads it here

from . import rooms  # noqa: F401  # isort: skip  (before what is in them)
from .conf.lazy import importer
from .conf.threads import spin_briefly

spin_briefly()

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:
    from .conf.mistakes import ConfigError, RunError
    from .conf.schema import Config
    from .evaluation.baselines import register_baseline
    from .evaluation.load import from_pretrained, load_run
    from .experiments.grid import train_grid
    from .experiments.runs_table import runs_table
    from .models import Model
    from .models.loops.make import register_loop
    from .openml_eval.estimators import LoopedClassifier, LoopedRegressor
    from .probing.targets import register_target
    from .show.compare import compare
    from .show.evaluate import evaluate
    from .show.plotting import plot
    from .tasks import Prompts, Task, register_shift, register_task
    from .training import Callback, EarlyStopping, Run, train
    from .training.run_folder.checkpoint import snapshots_of

_MODULES = {
    "Callback": ".training",
    "Config": ".conf.schema",
    "ConfigError": ".conf.mistakes",
    "EarlyStopping": ".training",
    "LoopedClassifier": ".openml_eval.estimators",
    "LoopedRegressor": ".openml_eval.estimators",
    "Model": ".models",
    "Prompts": ".tasks",
    "Run": ".training",
    "RunError": ".conf.mistakes",
    "Task": ".tasks",
    "compare": ".show.compare",
    "evaluate": ".show.evaluate",
    "from_pretrained": ".evaluation.load",
    "load_run": ".evaluation.load",
    "plot": ".show.plotting",
    "register_baseline": ".evaluation.baselines",
    "register_loop": ".models.loops.make",
    "register_shift": ".tasks",
    "register_target": ".probing.targets",
    "register_task": ".tasks",
    "runs_table": ".experiments.runs_table",
    "snapshots_of": ".training.run_folder.checkpoint",
    "train": ".training",
    "train_grid": ".experiments.grid",
}

__all__ = [
    "Callback", "Config", "ConfigError", "EarlyStopping", "LoopedClassifier", "LoopedRegressor",
    "Model", "Prompts", "Run", "RunError", "Task", "compare", "evaluate", "from_pretrained",
    "load_run", "plot", "register_baseline", "register_loop", "register_shift", "register_target",
    "register_task", "runs_table", "snapshots_of", "train", "train_grid",
]  # fmt: skip

__getattr__, __dir__ = importer(__name__, _MODULES)
