"""Control prompts: they show what a probe computes itself instead of reading it off the states.

prompts, weights = control_prompts(task, torch.Generator().manual_seed(0), batch=64, points=41)
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from reloop.tasks import Prompts, Task
from reloop.tasks.conditioned_linear import ConditionedLinear
from reloop.tasks.linear import Linear, SparseLinear
from reloop.tasks.random_source import FreshNumbers


def control_prompts(
    task: Task, generator: Generator, batch: int, points: int
) -> tuple[Prompts, Tensor]:
    """Prompts whose functions all have the weights w = 1, and these weights [batch, d].

    Probes that are trained on them and tested on random w are the control (Yang et al. 2024,
    appendix F). Inputs and noise are those that `task.draw` draws from the same generator;
    `distinct_prompts` is ignored. Raises ValueError for a task that is not of dense linear
    functions.
    """
    if not isinstance(task, Linear) or isinstance(task, SparseLinear | ConditionedLinear):
        raise ValueError(
            f"the control, all weights 1, is that of dense linear functions, not of {task.name}"
        )
    draws = FreshNumbers(generator, batch)
    weights = torch.ones_like(task.parameters(draws, task.dims))
    return task.prompts(weights, draws, points, task.dims), weights
