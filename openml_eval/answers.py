"""What a model answers to many queries beside its contexts, loop by loop.

values = answer_queries(model, contexts, queries, LoopSettings(30))     # [1, contexts, queries]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reloop.evaluation.halting import Halting, changes
from reloop.models import Model, Queries
from reloop.tasks import Prompts

from .context import Floats

# Queries that stand beside a context at once. Every query attends to its context and itself, but
# the mask is made, and gone through, for all pairs of them: more at once cost more than they save.
_AT_ONCE = 256


@dataclass(frozen=True)
class LoopSettings:
    """How many loops are made, and the rule by which each answer stays as it is once it has
    settled, where there is one."""

    loops: int
    halting: Halting | None = None
    divisor: float = 1.0  # the variance of y


@torch.no_grad()
def answer_queries(
    model: Model, contexts: Prompts, queries: Tensor, reading: LoopSettings, staged: bool = False
) -> Floats:
    """Answers to queries [m, d] in each of C contexts: [1, C, m] after the last loop or, `staged`,
    [loops, C, m] after each. An answer is the prediction or, of a classifier, the probability of
    class 1.

    Everything is on one device and in float64: what stands beside a query changes its answer by
    rounding alone.
    """
    answers = []
    for part in queries.split(_AT_ONCE):
        beside = Queries(
            part.expand(len(contexts), -1, -1),
            torch.full((len(part),), contexts.xs.shape[1], device=part.device),
        )
        if reading.halting is None:
            window = reading.loops if staged else 1
            found = _answers(model, model(contexts, reading.loops, window, queries=beside))
        else:
            found = _halted(model, contexts, beside, reading, reading.halting)
        answers.append((found if staged else found[-1:]).cpu().numpy())
    return np.concatenate(answers, axis=2)


def _answers(model: Model, predictions: Tensor) -> Tensor:
    return predictions.softmax(-1)[..., 1] if model.spec.classes else predictions


def _halted(
    model: Model, contexts: Prompts, beside: Queries, reading: LoopSettings, rule: Halting
) -> Tensor:
    """Answers [loops, C, m], each held from the loop on at which it settled. Nothing is computed
    once all have."""
    found: list[Tensor] = []
    halted = rule.start(beside.xs[..., 0])
    before: tuple[Tensor, Tensor] | None = None
    for loop, (state, prediction) in enumerate(model.unroll(contexts, reading.loops, beside)):
        if loop == 0:
            continue  # the read-in has seen no loop
        now = state.stream[:, -beside.xs.shape[1] :], prediction
        halted.see(loop, _answers(model, prediction), changes(before, now, reading.divisor))
        found.append(halted.values)
        before = now
        if halted.all:
            break
    return torch.stack(found + found[-1:] * (reading.loops - len(found)))
