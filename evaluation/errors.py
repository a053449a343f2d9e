"""A model's errors prompt by prompt: by number of in-context examples, and loop by loop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from reloop.models import Model, Queries
from reloop.tasks import Prompts, Task
from reloop.training.objective import error

from .cache import Arrays
from .halting import Halting, changes

ERROR_RATE = "error rate"


@dataclass(frozen=True)
class ErrorSettings:
    """At which loops errors by examples are read, how many loops are made, and the rule by which a
    prediction is read at a loop of its own, where there is one."""

    at: tuple[int, ...]
    loops: int
    halting: Halting | None = None


def error_name(task: Task) -> str:
    """What an error of this task is called, on an axis."""
    if task.loss != "squared_error":
        return ERROR_RATE
    return "squared error" if task.divisor == 1 else f"squared error / {task.divisor:g}"


def evaluation_prompts(task: Task, prompts: int, points: int, seed: int) -> Prompts:
    """The prompts that every model of this task is measured on: drawn on the CPU, so that a seed
    means the same prompts on every device."""
    return task.for_evaluation().sample(Generator().manual_seed(seed), prompts, points)


def model_errors(
    model: Model,
    task: Task,
    prompts: Prompts,
    settings: ErrorSettings,
    queries: Prompts | None = None,
) -> Arrays:
    """Run the model once over a batch of prompts, on the model's device.

    `at_<loop>` [B, n]: errors over the task's divisor by number of examples. `by_loop`,
    `state_change` and `prediction_change` [B, loops], from loop 1: the last query's error, and how
    far its state and its prediction moved (nan at loop 1, before which there is neither). With a
    halting rule, `halted` and `loops_used` [B, n]. Query k, where there are queries, is asked after
    the first k pairs in place of the prompt's own.
    """
    device = next(model.parameters()).device
    batch, asked = prompts.to(device), (queries or prompts).to(device)
    beside = None
    if queries is not None:
        beside = Queries(asked.xs, torch.arange(asked.xs.shape[1], device=device))
    read: dict[str, Tensor] = {}
    rows: dict[str, list[Tensor]] = {"by_loop": [], "state_change": [], "prediction_change": []}
    halted = settings.halting.start(asked.ys) if settings.halting else None
    before: tuple[Tensor, Tensor] | None = None
    for loop, (state, prediction) in enumerate(model.unroll(batch, settings.loops, beside)):
        if loop == 0:
            continue  # the read-in has seen no loop
        tokens = state.stream[:, ::2] if beside is None else state.stream[:, -asked.xs.shape[1] :]
        errors = error(task.loss, prediction, asked.ys) / task.divisor
        moved = changes(before, (tokens, prediction), task.divisor)
        before = tokens, prediction
        for name, values in (("by_loop", errors), *moved.items()):
            rows[name].append(values[:, -1])
        if loop in settings.at:
            read[f"at_{loop}"] = errors
        if halted is not None:
            halted.see(loop, errors, moved)
    read |= {name: torch.stack(values, dim=1) for name, values in rows.items()}
    if halted is not None:
        read |= {"halted": halted.values, "loops_used": halted.loops}
    return {name: tensor.float().cpu().numpy() for name, tensor in read.items()}
