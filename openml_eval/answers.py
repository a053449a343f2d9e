"""Answers of a model to many queries in its contexts, loop by loop.

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

# Queries per pass beside a context. A query attends to its context and itself, but the mask has all
# pairs of queries: longer passes cost more than they save.
_QUERY_CHUNK = 256


@dataclass(frozen=True)
class LoopSettings:
    """The number of loops, and the rule by which each answer is fixed once it has converged, if
    there is one."""

    loops: int
    halting: Halting | None = None
    divisor: float = 1.0  # the variance of y


@torch.no_grad()
def answer_queries(
    model: Model, contexts: Prompts, queries: Tensor, settings: LoopSettings, staged: bool = False
) -> Floats:
    """Answers to queries [m, d] in each of C contexts: [1, C, m] after the last loop or, `staged`,
    [loops, C, m] after each. An answer is the prediction or, of a classifier, the probability of
    class 1.

    Everything is on one device and in float64: the other queries change an answer only by rounding.
    """
    answers = []
    for chunk in queries.split(_QUERY_CHUNK):
        model_queries = Queries(
            chunk.expand(len(contexts), -1, -1),
            torch.full((len(chunk),), contexts.xs.shape[1], device=chunk.device),
        )
        if settings.halting is None:
            window = settings.loops if staged else 1
            stages = _answers(model, model(contexts, settings.loops, window, queries=model_queries))
        else:
            stages = _halting_answers(model, contexts, model_queries, settings, settings.halting)
        answers.append((stages if staged else stages[-1:]).cpu().numpy())
    return np.concatenate(answers, axis=2)


def _answers(model: Model, predictions: Tensor) -> Tensor:
    return predictions.softmax(-1)[..., 1] if model.spec.classes else predictions


def _halting_answers(
    model: Model, contexts: Prompts, model_queries: Queries, settings: LoopSettings, rule: Halting
) -> Tensor:
    """Answers [loops, C, m], each fixed once it has converged. Stops when all have."""
    stages: list[Tensor] = []
    halted = rule.start(model_queries.xs[..., 0])
    previous: tuple[Tensor, Tensor] | None = None
    for loop, (state, prediction) in enumerate(
        model.unroll(contexts, settings.loops, model_queries)
    ):
        if loop == 0:
            continue  # the read-in precedes the first loop
        current = state.stream[:, -model_queries.xs.shape[1] :], prediction
        halted.update(
            loop, _answers(model, prediction), changes(previous, current, settings.divisor)
        )
        stages.append(halted.values)
        previous = current
        if halted.all:
            break
    return torch.stack(stages + stages[-1:] * (settings.loops - len(stages)))
