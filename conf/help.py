"""What `python run.py --help` prints."""

from __future__ import annotations

from .compose import choices

_TEXT = """\
Train a transformer to learn a function class in context, evaluate it, draw its errors.

  python run.py task=sparse_linear                          minutes on a laptop
  python run.py task=decision_tree model=standard seed=1
  python run.py task=linear scale=paper                     the paper's run; wants a GPU
  python run.py -m task=linear seed=0,1,2                   a grid, one run after another
  python run.py action=evaluate run=runs/NAME evaluation.loops=30
  python run.py action=import checkpoint=PATH               a reference code's state.pt, model_N.pt

The same command finds the same run: a finished one is shown, an interrupted one goes on.

Choices
  task    {tasks}
  model   {models}
  scale   {scales}

Settings people change (key=value; every one with its default: conf/schema.py)
  seed                        weights, prompts and their order
  task.dims, task.points      dimensions of x; pairs in a prompt, k + 1
  loops.b, loops.T            loops, and how many of the last count in the loss
  model.n_embd, model.n_head  width and heads
  training.steps              how long
  training.learning_rate      Adam's rate
  training.batch_size         prompts in a step
  evaluation.loops            loop at which errors by examples are read beside b
  device, precision           auto, cpu, cuda; auto, fp32, tf32, bf16
  backend                     auto, eager, compile, triton: what makes the loops
  folder                      where run folders go (runs)
A task's own settings stand in conf/task/: {settings}

Exit code: 0 done, 1 a run failed, 2 a mistake in the command, 130 and 143 stopped by a signal.
"""


def help_text() -> str:
    """The text, with the choices that conf/ holds."""
    settings = "task.sparsity, task.depth, task.hidden, task.noise_std, …"
    groups = {f"{group}s": "  ".join(choices(group)) for group in ("task", "model", "scale")}
    return _TEXT.format(settings=settings, **groups)
