"""The text of `python run.py --help`."""

from collections.abc import Sequence
from textwrap import wrap

from .command import as_word
from .compose import LISTS, origins_of
from .files import choices
from .saved import shipped_names
from .schema import Config
from .setting import all_settings

START = """\
Looplab trains transformers that apply one block many times to learn functions in context, measures
them beside the solvers that they have to beat, and draws what they learned.

  python run.py task=linear                                 train, evaluate, draw: minutes
  python run.py task=linear action=plan                     what that takes; nothing is trained
  python run.py -m task=linear seed=0,1,2                   a grid
  python run.py action=evaluate run=shipped/sparse_linear   a trained model that comes with it
  python run.py action=compare runs=shipped/linear,shipped/linear-standard
  python run.py experiment=fig03                            a published figure, its claims judged
  python run.py action=list                                 the runs that there are
  python run.py action=report                               one page of all that was measured
  python -m probing run=shipped/linear                      what each loop holds

--help says all; docs/tour.md takes one to three minutes.
"""
_TEXT = """\
Train a transformer to learn a function class in context, evaluate it, draw its errors.

  python run.py task=sparse_linear                          minutes on a laptop
  python run.py task=decision_tree model=standard seed=1
  python run.py task=linear scale=medium                    a quarter of an hour of one core
  python run.py task=linear scale=paper                     the paper's run; wants a GPU
  python run.py task=linear scale=paper --settings          every value, and the file that it is of
  python run.py -m task=linear seed=0,1,2 jobs=3            a grid, three runs at a time
  python run.py -m task=linear seed=0,1,2 action=plan       its runs, and the time they take
  python run.py -m task=linear seed=0,1,2 engine=slurm      the same as a job array of Slurm
  torchrun --nproc-per-node=2 run.py training.shards=2      one run on two GPUs, half a batch each
  python run.py task=linear scale=paper action=tune         the fastest kernels for it on this GPU
  python run.py action=evaluate run=runs/NAME evaluation.shifts=all
  python run.py action=evaluate run=shipped/sparse_linear   a trained model that comes with it
  python run.py action=compare runs=runs/A,runs/B
  python run.py action=generate run=runs/NAME prompt="Call me"     of a run of task=language
  python run.py action=core run=runs/NAME bundle=FOLDER            its answers to 22 tasks
  python run.py lm_eval --model looplab --model_args run=runs/NAME --tasks piqa
  python run.py action=export run=runs/NAME folder=PATH     a model that travels
  python run.py action=play run=runs/NAME                   a page for points drawn by hand
  python run.py action=import checkpoint=PATH               a reference code's state.pt, model_N.pt
  python run.py experiment=fig03                            a published figure; add --help for all
  python run.py action=list                                 a table of runs

The same command finds the same run: a finished one is shown, an interrupted one goes on.

Choices
  task    {tasks}
  model   {models}
  scale   {scales}        how large task and model are
  recipe  {recipes}       how the model is trained there
  run=shipped/NAME, a trained model that comes with it: {shipped}

Settings (key=value, lists key=a,b; a scale and a recipe set most; docs/reference.md has meanings)
{settings}
A task's own settings are in conf/task/: task.sparsity, task.depth, task.hidden, task.noise_std, …
curriculum.proportional=true lets dims, points and loops grow in proportion to training.steps.
Of a grid (-m): jobs=, devices=0,1,2,3, engine=slurm and engine.*; docs/clusters.md. A comma is
between two of its values, but in {lists}.
again=true trains again; the old run is kept under another name. --version says which this is.

Exit code: 0 done, 1 a run failed, 2 a mistake in the command, 130 and 143 stopped by a signal.
"""


def help_text() -> str:
    """The text, with the choices that conf/ holds."""
    groups = {
        f"{group}s": "  ".join(choices(group)) for group in ("task", "model", "scale", "recipe")
    }
    settings = "\n".join(wrap("  ".join(all_settings(Config)), 96))
    shipped = "  ".join(shipped_names())
    lists = ", ".join(LISTS)
    return _TEXT.format(settings=settings, shipped=shipped, lists=lists, **groups)


def settings_text(words: Sequence[str]) -> str:
    """Every setting of the run of these words as a word, a line each, and the file of its value.
    Raises ConfigError for a mistake in the words."""
    settings = origins_of(words)
    lines = [(f"{key}={as_word(value)}", origin) for key, (value, origin) in settings.items()]
    # A few long values, as lists of shifts, do not push all origins to the right.
    width = max(len(word) for word, _ in lines if len(word) < 50)
    return "\n".join(f"{word:{width}}  {origin}" for word, origin in lines)
