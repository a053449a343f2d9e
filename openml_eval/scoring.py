"""Which rows of a table a model, or a solver, classifies rightly from contexts of other rows.

hits = model_hits(trained, table, split_contexts(len(table.ys), 40, 64, seed=0), slice(0, 8))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reloop.conf.mistakes import ConfigError
from reloop.models import Model, Queries
from reloop.tasks import Prompts, Task

from .context import Floats, Scaling, model_inputs
from .context_split import ContextSplit, Rows
from .solvers import solve
from .tables.table import Table

Hits = NDArray[np.uint8]
ABSENT = 255  # in place of a hit (1) or a miss (0), where a group has fewer rows than the largest
# Queries that stand beside a context at once: the mask is made, and gone through, for all pairs.
_AT_ONCE = 256


@dataclass(frozen=True)
class TrainedModel:
    """A trained model, in eval mode, with the task that says how it reads a table, and the loops
    that it makes."""

    model: Model
    task: Task
    loops: int

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


@torch.no_grad()
def model_hits(trained: TrainedModel, table: Table, split: ContextSplit, groups: slice) -> Hits:
    """Hits of a slice of the groups, [groups, most, 2]: with the labels of the context as they are
    and swapped. Features are standardised by the context alone.

    A group's rows stand beside one copy of its context, which answers them as separate prompts
    would. Raises ConfigError for a table of more features than the model reads.
    """
    dims = trained.model.spec.dims
    check_features(table.name, table.xs.shape[1], dims)
    first = torch.tensor(trained.task.labels)
    tokens = torch.stack((first, first.flip(0)))  # [polarity, class]
    numbers = range(*groups.indices(len(split.groups)))
    scalings = [Scaling.of(table.xs[split.contexts[g]]) for g in numbers]
    contexts = split.contexts[groups]
    left = trained.task.left_padded
    xs = _read_as(scalings, table, contexts, dims, left)
    ys = tokens[:, torch.from_numpy(table.ys[contexts])].flatten(0, 1)
    prompts = Prompts(xs.repeat(2, 1, 1), ys).to(trained.device)
    hits = np.full((len(numbers), split.most, 2), ABSENT, np.uint8)
    for start, rows, there in _parts([split.groups[g] for g in numbers], split.most):
        asked = _read_as(scalings, table, rows, dims, left).repeat(2, 1, 1).to(trained.device)
        seen = torch.full((rows.shape[1],), contexts.shape[1], device=trained.device)
        answers = trained.model(prompts, trained.loops, 1, queries=Queries(asked, seen))[0]
        classes = answers.argmax(-1).view(2, *rows.shape).cpu().numpy()
        classes[1] = 1 - classes[1]
        right = (classes == table.ys[rows]).transpose(1, 2, 0)
        stop = start + rows.shape[1]
        hits[:, start:stop] = np.where(there[..., None], right, ABSENT)
    return hits


def solver_hits(name: str, table: Table, split: ContextSplit, groups: slice) -> Hits:
    """A solver's hits of a slice of the groups, [groups, most], from the same contexts,
    standardised as for a model."""
    numbers = range(*groups.indices(len(split.groups)))
    hits = np.full((len(numbers), split.most), ABSENT, np.uint8)
    for index, g in enumerate(numbers):
        rows, context = split.groups[g], split.contexts[g]
        scaling = Scaling.of(table.xs[context])
        predict = solve(name, scaling.apply(table.xs[context]), table.ys[context])
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            right = predict(scaling.apply(table.xs[part])) == table.ys[part]
            hits[index, start : start + len(part)] = right
    return hits


def check_features(name: str, features: int, dims: int) -> None:
    """ConfigError where a table does not fit into a model's dimensions."""
    if features > dims:
        raise ConfigError(
            "task.dims", f"is {dims}, and {name} has {features} features: task.dims={features}"
        )


def _read_as(scalings: list[Scaling], table: Table, rows: Rows, dims: int, left: bool) -> Tensor:
    """Rows [groups, n] as float32 inputs [groups, n, dims], standardised by their contexts."""
    scaled: list[Floats] = [
        model_inputs(scaling.apply(table.xs[own]), dims, left)
        for scaling, own in zip(scalings, rows, strict=True)
    ]
    return torch.from_numpy(np.stack(scaled)).float()


def _parts(groups: list[Rows], most: int) -> Iterator[tuple[int, Rows, NDArray[np.bool_]]]:
    """The groups' rows [groups, n], _AT_ONCE of each at a time, from which one on, and whether they
    are there: where a group is at its end, its first row stands again."""
    for start in range(0, most, _AT_ONCE):
        width = min(_AT_ONCE, most - start)
        rows = np.stack([np.resize(group[:1], width) for group in groups])
        there = np.zeros(rows.shape, bool)
        for index, group in enumerate(groups):
            part = group[start : start + width]
            rows[index, : len(part)], there[index, : len(part)] = part, True
        yield start, rows, there
