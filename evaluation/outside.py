"""What can be wrong with a user's own task or baseline and passes unseen: a warning each.

if line := divisor_warning(task): print(line)
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch

from reloop.conf.mistakes import ConfigError
from reloop.tasks import Prompts, Task
from reloop.training.run_folder.sources import outside_source

from .baselines import AnySolver, Solver, answers, solver_module

_FEW = 16  # prompts that a baseline is tried on
_PROMPTS, _POINTS = 4096, 16  # that a variance is estimated from
_TOLERATED = 0.1  # of a divisor
_STANDARD_ERRORS = 4.0


def divisor_warning(task: Task) -> str:
    """A line where the divisor of a regression from outside the project is not the variance of its
    outputs, as far as these prompts tell; else empty."""
    if outside_source(type(task)) is None or task.loss != "squared_error":
        return ""
    try:
        prompts, parameters = task.draw(torch.Generator().manual_seed(0), _PROMPTS, _POINTS)
        ys = task.outputs(prompts.xs, parameters).double()
    except ConfigError:  # a task of data, without a function of x
        return ""
    squares = (ys - ys.mean()).square().mean(1)
    variance, error = float(squares.mean()), float(squares.std()) / _PROMPTS**0.5
    if abs(variance - task.divisor) <= _TOLERATED * variance + _STANDARD_ERRORS * error:
        return ""
    return (
        f"warning: task={task.name} has the divisor {task.divisor:g}, but the variance of its "
        f"outputs is about {variance:.3g}: its errors are not in that unit"
    )


def causality_warning(name: str, task: Task, solve: AnySolver, prompts: Prompts) -> str:
    """A line where a solver of pairs from outside the project answers a query otherwise when
    outputs are changed that stand at the query or after it; else empty."""
    if task.is_text or solver_module(solve).startswith("reloop."):
        return ""
    solve = cast(Solver, solve)
    xs, ys = (part[:_FEW].double().numpy() for part in (prompts.xs, prompts.ys))
    half = ys.shape[1] // 2
    changed = np.concatenate((ys[:, :half], -ys[:, half:]), axis=1)
    before, after = (answers(solve, xs, each, xs)[:, : half + 1] for each in (ys, changed))
    if np.allclose(before, after, rtol=1e-6, atol=1e-9, equal_nan=True):
        return ""
    return (
        f"warning: the baseline {name} reads what it is to predict: its answer to query k depends "
        "on outputs from the k-th on"
    )
