"""A model's errors prompt by prompt: by number of in-context examples, and loop by loop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from reloop.models import Model, Queries
from reloop.models.queries import read_at
from reloop.tasks import Prompts, Task
from reloop.training.objective import error

from .cache import Arrays
from .halting import Halting, changes
from .results import NATS

ERROR_RATE = "error rate"


@dataclass(frozen=True)
class ErrorSettings:
    """The loops `at` which errors by examples are read, the number of loops to run, and the halting
    rule by which each prediction is read at its own loop, if there is one."""

    at: tuple[int, ...]
    loops: int
    halting: Halting | None = None


def error_name(task: Task) -> str:
    """The name of this task's error, for an axis."""
    if task.loss == "next_token":
        return NATS
    if task.loss != "squared_error":
        return ERROR_RATE
    return "squared error" if task.divisor == 1 else f"squared error / {task.divisor:g}"


def evaluation_prompts(task: Task, prompts: int, points: int, seed: int) -> Prompts:
    """The prompts that every model of this task is evaluated on: drawn on the CPU, so that a seed
    gives the same prompts on every device."""
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
    `state_change` and `prediction_change` [B, loops], from loop 1: the last query's error, and the
    changes of its state and prediction (nan at loop 1, which has no loop before it); of a text, the
    means over all tokens. With a halting
    rule, `halted` and `loops_used` [B, n]. If `queries` are given, query k replaces the prompt's
    own query after the first k pairs.
    """
    device = next(model.parameters()).device
    batch, pairs = prompts.to(device), (queries or prompts).to(device)
    model_queries = None
    if queries is not None:
        model_queries = Queries(pairs.xs, torch.arange(pairs.xs.shape[1], device=device))
    results: dict[str, Tensor] = {}
    curves: dict[str, list[Tensor]] = {"by_loop": [], "state_change": [], "prediction_change": []}
    halted = settings.halting.start(pairs.ys.float()) if settings.halting else None
    read = read_at(model.reader.layout(batch, model_queries))
    previous: tuple[Tensor, Tensor] | None = None
    for loop, (state, prediction) in enumerate(model.unroll(batch, settings.loops, model_queries)):
        if loop == 0:
            continue  # the read-in precedes the first loop
        tokens = state.stream[:, read]
        errors = error(task.loss, prediction, pairs.ys) / task.divisor
        loop_changes = changes(previous, (tokens, prediction), task.divisor)
        previous = tokens, prediction
        for name, values in (("by_loop", errors), *loop_changes.items()):
            curves[name].append(values.mean(1) if task.is_text else values[:, -1])
        if loop in settings.at:
            results[f"at_{loop}"] = errors
        if halted is not None:
            halted.update(loop, errors, loop_changes)
    results |= {name: torch.stack(values, dim=1) for name, values in curves.items()}
    if halted is not None:
        results |= {"halted": halted.values, "loops_used": halted.loops}
    return {name: tensor.float().cpu().numpy() for name, tensor in results.items()}
