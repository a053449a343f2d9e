"""A model's errors prompt by prompt: by number of in-context examples, and loop by loop.

Halting reads each prediction at its own loop, the first at which it has converged.

arrays = model_errors(run.model, run.task, prompts, ErrorSettings(at=(12,), loops=36))
errors, loops = halted_at(arrays["by_loop"], arrays["state_change"], 0.01, latest=12)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from looplab.models import Model, Queries
from looplab.models.queries import read_at
from looplab.tasks import Prompts, Task
from looplab.training.objective import error

from .bootstrap import Floating
from .kept import Arrays


@dataclass(frozen=True)
class ErrorSettings:
    """The loops `at` which errors by examples are read, and the number of loops to run. By a
    halting rule, if there is one, each prediction is read at its own loop."""

    at: tuple[int, ...]
    loops: int
    halting: HaltingRule | None = None


def model_errors(
    model: Model,
    task: Task,
    prompts: Prompts,
    settings: ErrorSettings,
    queries: Prompts | None = None,
) -> Arrays:
    """Run the model once over a batch of prompts, on the model's device.

    `at_<loop>` [B, n]: errors over the task's divisor by number of examples. `by_loop`,
    `state_change` and `prediction_change` [B, loops], from loop 1: the last query's error and the
    changes of its state and prediction. Changes are nan at loop 1, which has no loop before it. Of
    a text, all three are means over all tokens. With a halting rule, `halted` and `loops_used`
    [B, n]. If `queries` are given, query k replaces the prompt's own after the first k pairs.
    """
    device = next(model.parameters()).device
    batch = prompts.to(device)
    pairs = (queries or prompts).to(device)
    model_queries = None
    if queries is not None:
        # Query k has seen the first k pairs.
        model_queries = Queries(pairs.xs, torch.arange(pairs.xs.shape[1], device=device))
    read = read_at(model.reader.layout(batch, model_queries))
    results: dict[str, Tensor] = {}
    curves: dict[str, list[Tensor]] = {}  # by loop, [B] each
    followed: list[Tensor] = []  # errors and changes by loop, [2, B, n] each
    previous: tuple[Tensor, Tensor] | None = None
    for loop, (state, prediction) in enumerate(model.unroll(batch, settings.loops, model_queries)):
        if loop == 0:
            continue  # the read-in precedes the first loop
        tokens = state.stream[:, read]
        errors = error(task.loss, prediction, pairs.ys) / task.divisor
        by_query = {"by_loop": errors} | changes(previous, (tokens, prediction), task.divisor)
        previous = tokens, prediction
        # Of pairs the last query stands for the prompt, of a text all of its tokens do.
        for name, values in by_query.items():
            one = values.mean(1) if task.is_text else values[:, -1]
            curves.setdefault(name, []).append(one)
        if loop in settings.at:
            results[f"at_{loop}"] = errors
        if settings.halting:
            followed.append(torch.stack((errors, by_query[f"{settings.halting.on}_change"])))
    for name, by_loop in curves.items():
        results[name] = torch.stack(by_loop, dim=1)
    arrays = {name: tensor.float().cpu().numpy() for name, tensor in results.items()}
    if rule := settings.halting:
        every, change = torch.stack(followed, dim=-1).float().cpu().numpy()  # [B, n, loops] each
        halted, loops = halted_at(every, change, rule.tolerance, rule.latest)
        arrays |= {"halted": halted, "loops_used": loops.astype(np.float32)}
    return arrays


@dataclass(frozen=True)
class HaltingRule:
    """Halt once the change of the state or the prediction (`on`) over one loop is at most
    `tolerance`, and after `latest` loops in any case."""

    on: Literal["state", "prediction"]
    tolerance: float
    latest: int


def changes(
    previous: tuple[Tensor, Tensor] | None, current: tuple[Tensor, Tensor], divisor: float
) -> dict[str, Tensor]:
    """Changes of state [B, n, n_embd] and prediction [B, n] (or logits [B, n, classes]) over the
    last loop, [B, n] each; nan if there is no previous loop.

    The state's is over its norm, the prediction's over the standard deviation of y.
    """
    tokens, prediction = current
    shape = tokens.shape[:2]
    if previous is None:
        unknown = tokens.new_full(shape, torch.nan)
        return {"state_change": unknown, "prediction_change": unknown}
    # Norms over the numbers of one token each: [B, n].
    state = (tokens - previous[0]).norm(dim=-1) / tokens.norm(dim=-1)
    # Of several logits the one that changes most.
    change = (prediction - previous[1]).abs().view(*shape, -1).amax(-1)
    return {"state_change": state, "prediction_change": change / divisor**0.5}


def halted_at(
    errors: Floating, changes: Floating, tolerance: float, latest: int
) -> tuple[Floating, Floating]:
    """Error and number of loops used, [...] each, of predictions whose errors and changes by loop
    are [..., loops]."""
    converged = changes[..., :latest] <= tolerance  # never at loop 1, whose change is nan
    # Whatever has not converged halts after the latest loop.
    converged[..., -1] = True
    index = converged.argmax(-1)  # the first that has
    halted = np.take_along_axis(errors, index[..., None], -1)[..., 0]
    return halted, index + 1.0
