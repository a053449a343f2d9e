"""A model's errors prompt by prompt: by number of in-context examples, and by loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from models import Model
from tasks import Prompts, Task
from training.objective import error


@dataclass(frozen=True)
class Errors:
    """Errors over the task's divisor: `by_examples` maps a loop to [prompts, n], `by_loop` is the
    last query's error [prompts, loops] from loop 1."""

    by_examples: dict[int, NDArray[np.float32]]
    by_loop: NDArray[np.float32]


def error_name(task: Task) -> str:
    """What an error of this task is called, on an axis."""
    return f"squared error / {task.divisor:g}" if task.loss == "squared_error" else "error rate"


def evaluation_prompts(task: Task, prompts: int, points: int, seed: int) -> Prompts:
    """The prompts that every model of this task is measured on: drawn on the CPU, so that a seed
    means the same prompts on every device."""
    return task.sample(Generator().manual_seed(seed), prompts, points)


def model_errors(
    model: Model, task: Task, prompts: Prompts, read_at: set[int], loops: int, batch_size: int
) -> Errors:
    """Run `loops` loops once over all prompts, in batches, on the model's device; read the errors
    by examples at the loops `read_at` (each at most `loops`)."""
    device = next(model.parameters()).device
    by_examples: dict[int, list[torch.Tensor]] = {loop: [] for loop in read_at}
    by_loop = []
    for first in range(0, len(prompts), batch_size):
        batch = prompts[first : first + batch_size].to(device)
        last = []
        for loop, (_, prediction) in enumerate(model.unroll(batch, loops)):
            if loop == 0:
                continue  # the read-in has seen no loop
            errors = error(task.loss, prediction, batch.ys) / task.divisor
            last.append(errors[:, -1])
            if loop in read_at:
                by_examples[loop].append(errors.cpu())
        by_loop.append(torch.stack(last, dim=1).cpu())
    return Errors(
        {loop: torch.cat(parts).numpy() for loop, parts in by_examples.items()},
        torch.cat(by_loop).numpy(),
    )
