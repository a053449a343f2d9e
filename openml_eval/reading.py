"""What a model answers to many queries beside its contexts, loop by loop.

values = read_queries(model, contexts, queries, Reading(30))     # [1, contexts, queries]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from conf.schema import EvaluationConfig
from evaluation.halting import halted_at
from models import Model, Queries
from tasks import Prompts

from .context import Floats

# Queries that stand beside a context at once. Every query attends to its context and itself, but
# the mask is made, and gone through, for all pairs of them: more at once cost more than they save.
_AT_ONCE = 256


@dataclass(frozen=True)
class Reading:
    """How many loops are made, and whether each answer stays as it is once it has settled: when a
    loop moves it by no more than evaluation's tolerance, in standard deviations of y."""

    loops: int
    halting: bool = False
    divisor: float = 1.0  # the variance of y


@torch.no_grad()
def read_queries(
    model: Model, contexts: Prompts, queries: Tensor, reading: Reading, staged: bool = False
) -> Floats:
    """Answers to queries [m, d] in each of C contexts: [1, C, m] after the last loop or, `staged`,
    [loops, C, m] after each. An answer is the prediction or, of a classifier, the probability of
    class 1.

    Everything is on one device and in float64: what stands beside a query changes its answer by
    rounding alone.
    """
    window = reading.loops if staged or reading.halting else 1
    answers = []
    for part in queries.split(_AT_ONCE):
        beside = Queries(
            part.expand(len(contexts), -1, -1),
            torch.full((len(part),), contexts.xs.shape[1], device=part.device),
        )
        predictions = model(contexts, reading.loops, window, queries=beside)
        values = predictions.softmax(-1)[..., 1] if model.spec.classes else predictions
        found: Floats = values.cpu().numpy()
        if reading.halting:
            found = _halted(found, predictions, reading.divisor)
        answers.append(found if staged else found[-1:])
    return np.concatenate(answers, axis=2)


def _halted(values: Floats, predictions: Tensor, divisor: float) -> Floats:
    """Values [loops, C, m] with each held from the loop on at which its prediction settled."""
    moved = predictions.diff(dim=0).abs().view(len(values) - 1, *values.shape[1:], -1).amax(-1)
    changes = np.full(values.shape, np.nan)  # before loop 1 there is nothing to have moved from
    changes[1:] = moved.cpu().numpy() / divisor**0.5
    tolerance = EvaluationConfig().tolerance
    flat, flat_changes = (array.reshape(len(values), -1).T for array in (values, changes))
    _, used = halted_at(flat, flat_changes, tolerance)
    last = used.astype(int).reshape(values.shape[1:]) - 1
    stages = np.arange(len(values))[:, None, None]
    return np.take_along_axis(values, np.minimum(stages, last), axis=0)
