"""The text of `python run.py --help`."""

from __future__ import annotations

from textwrap import wrap
from typing import get_args

from .groups import choices
from .schema import Baseline, Shift
from .shipped import shipped_names

_TEXT = """\
Train a transformer to learn a function class in context, evaluate it, draw its errors.

  python run.py task=sparse_linear                          minutes on a laptop
  python run.py task=decision_tree model=standard seed=1
  python run.py task=linear scale=medium                    up to an hour of two CPU cores
  python run.py task=linear scale=paper                     the paper's run; wants a GPU
  python run.py -m task=linear seed=0,1,2                   a grid, one run after another
  python run.py action=evaluate run=runs/NAME evaluation.shifts=all
  python run.py action=evaluate run=shipped/sparse_linear   a trained model that comes with it
  python run.py action=compare 'runs=[runs/A,runs/B]'
  python run.py action=import checkpoint=PATH               a reference code's state.pt, model_N.pt

The same command finds the same run: a finished one is shown, an interrupted one goes on.

Choices
  task    {tasks}
  model   {models}
  scale   {scales}        how large task and model are
  recipe  {recipes}       how the model is trained there
  run=shipped/NAME, a trained model that comes with it: {shipped}

Settings people change (key=value; every one with its default: conf/schema.py)
  seed                        weights, prompts and their order
  task.dims, task.points      dimensions of x; pairs in a prompt, k + 1
  loops.b, loops.T            loops, and how many of the last count in the loss
  loops.grad_loops            how many of the last gradients reach back through: window, half,
                              all or a number
  loops.sampling              none, uniform, poisson_lognormal: loops drawn for each step
  model.n_embd, model.n_head  width and heads
  model.block                 gpt2, llama, flt; model.attention full, grouped, latent, sliding
  model.injection             add, multiply, concat, none
  model.residual_scaling      none, sqrt, linear, factored: what residual branches are times
  training.steps              how long; 0 keeps the initial weights
  curriculum.proportional     true: dims, points and loops grow in proportion to training.steps, so
                              that a shorter run sees all of them; training.warmup stays as it is
  training.learning_rate      Adam's rate; training.optimizer adamw, adam, muon
  training.batch_size         prompts in a step
  training.ema_decay          of the moving average of the weights that is evaluated
  training.targets            outputs, posterior_mean: what predictions are compared with
  evaluation.loops            loop at which errors by examples are read beside b, or auto
  evaluation.tolerance        auto: a change of evaluation.halt_on (state, prediction) over a loop
                              of at most this has settled; evaluation.halt_by: loop to end at (b)
  evaluation.max_loops        how far the error by loop goes
  evaluation.shifts           shifted inputs to be measured on: all, or some of
                              {shifts}
  evaluation.baselines        solvers beside the model, in place of the task's own:
                              {baselines}
  device, precision           auto, cpu, cuda; auto, fp32, tf32, bf16
  backend                     auto, eager, cpu, compile, triton: what makes the loops
  folder                      where run folders go (runs)
  again                       true: train again; the old run is kept under another name
  together                    of a grid's members that differ in seeds or rates alone: true trains
                              them in one computation, auto where that is faster, false (default)
                              one after another
A task's own settings are in conf/task/: {settings}

Exit code: 0 done, 1 a run failed, 2 a mistake in the command, 130 and 143 stopped by a signal.
"""


def help_text() -> str:
    """The text, with the choices that conf/ holds."""
    settings = "task.sparsity, task.depth, task.hidden, task.noise_std, …"
    groups = {
        f"{group}s": "  ".join(choices(group)) for group in ("task", "model", "scale", "recipe")
    }
    groups["shipped"] = "  ".join(shipped_names())
    names = {"shifts": get_args(Shift)[1:], "baselines": get_args(Baseline)}
    lists = {key: _wrap_names(values) for key, values in names.items()}
    return _TEXT.format(settings=settings, **groups, **lists)


def _wrap_names(names: tuple[str, ...]) -> str:
    """Names in lines of the text's width, aligned."""
    return f"\n{' ' * 30}".join(wrap(" ".join(names), 70))
