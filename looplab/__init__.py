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
from .conf.public import GONE, MODULES
from .conf.threads import spin_briefly

spin_briefly()

TYPE_CHECKING = False  # typing's own takes as long to import as an entry point's first lines
if TYPE_CHECKING:  # the same names, for type checkers
    from .conf.mistakes import ConfigError as ConfigError
    from .conf.mistakes import RunError as RunError
    from .conf.schema import Config as Config
    from .evaluation.baselines import register_baseline as register_baseline
    from .evaluation.load import from_pretrained as from_pretrained
    from .evaluation.load import load_run as load_run
    from .evaluation.runs_table import runs_table as runs_table
    from .evaluation.statistics import Estimate as Estimate
    from .evaluation.statistics import over_seeds as over_seeds
    from .experiments.evidence import Evidence as Evidence
    from .experiments.grid import train_grid as train_grid
    from .models import Model as Model
    from .models.loops.loop import Loop as Loop
    from .models.loops.loop import SharedLoop as SharedLoop
    from .models.loops.make import register_loop as register_loop
    from .openml_eval.estimators import LoopedClassifier as LoopedClassifier
    from .openml_eval.estimators import LoopedRegressor as LoopedRegressor
    from .probing.targets import Target as Target
    from .probing.targets import register_target as register_target
    from .show.compare import compare as compare
    from .show.evaluate import evaluate as evaluate
    from .show.panel import Curve as Curve
    from .show.panel import Panel as Panel
    from .show.panel import mean_of_seeds as mean_of_seeds
    from .show.play.write import play as play
    from .show.plotting import plot as plot
    from .tasks import Prompts as Prompts
    from .tasks import Task as Task
    from .tasks import register_shift as register_shift
    from .tasks import register_task as register_task
    from .training import Callback as Callback
    from .training import EarlyStopping as EarlyStopping
    from .training import Run as Run
    from .training import train as train
    from .training.run_folder.checkpoint import snapshots_of as snapshots_of
    from .training.validation import evaluation_prompts as evaluation_prompts

__all__ = list(MODULES)

__getattr__, __dir__ = importer(__name__, MODULES, GONE)
