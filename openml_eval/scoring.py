"""Hits: the rows of a table that a model or a solver classifies correctly from other rows.

hits = model_hits(classifier, table, split_contexts(len(table.ys), 40, 64, seed=0), slice(0, 8))
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
# Queries per pass beside a context: the attention mask has all pairs of queries.
_QUERY_CHUNK = 256


@dataclass(frozen=True)
class TrainedModel:
    """A trained model, in eval mode, with its task, which defines how it reads a table, and its
    number of loops."""

    model: Model
    task: Task
    loops: int

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


@torch.no_grad()
def model_hits(
    classifier: TrainedModel,
    table: Table,
    split: ContextSplit,
    groups: slice,
    chunk: int = _QUERY_CHUNK,
) -> Hits:
    """Hits of a slice of the groups, [groups, group size, 2]: with the labels of the context as
    given and swapped. Features are standardised by the context only.

    A group's rows are queries beside one copy of its context, `chunk` at a time, with the same
    answers as in separate prompts. Raises ConfigError for a table with more features than the model
    reads.
    """
    dims = classifier.model.spec.dims
    check_features(table.name, table.xs.shape[1], dims)
    labels = torch.tensor(classifier.task.labels, dtype=torch.float32)
    tokens = torch.stack((labels, labels.flip(0)))  # [polarity, class]
    indices = range(*groups.indices(len(split.groups)))
    scalings = [Scaling.of(table.xs[split.contexts[g]]) for g in indices]
    contexts = split.contexts[groups]
    left = classifier.task.left_padded
    xs = _inputs(scalings, table, contexts, dims, left)
    ys = tokens[:, torch.from_numpy(table.ys[contexts])].flatten(0, 1)
    prompts = Prompts(xs.repeat(2, 1, 1), ys).to(classifier.device)
    hits = np.full((len(indices), split.group_size, 2), ABSENT, np.uint8)
    for start, rows, mask in _chunks([split.groups[g] for g in indices], split.group_size, chunk):
        queries = _inputs(scalings, table, rows, dims, left).repeat(2, 1, 1).to(classifier.device)
        context_sizes = torch.full((rows.shape[1],), contexts.shape[1], device=classifier.device)
        answers = classifier.model(
            prompts, classifier.loops, 1, queries=Queries(queries, context_sizes)
        )[0]
        classes = answers.argmax(-1).view(2, *rows.shape).cpu().numpy()
        classes[1] = 1 - classes[1]
        correct = (classes == table.ys[rows]).transpose(1, 2, 0)
        stop = start + rows.shape[1]
        hits[:, start:stop] = np.where(mask[..., None], correct, ABSENT)
    return hits


def solver_hits(
    name: str, table: Table, split: ContextSplit, groups: slice, chunk: int = _QUERY_CHUNK
) -> Hits:
    """A solver's hits of a slice of the groups, [groups, group size], from the same contexts,
    standardised as for a model; `chunk` rows at a time."""
    indices = range(*groups.indices(len(split.groups)))
    hits = np.full((len(indices), split.group_size), ABSENT, np.uint8)
    for index, g in enumerate(indices):
        rows, context = split.groups[g], split.contexts[g]
        scaling = Scaling.of(table.xs[context])
        predict = solve(name, scaling.apply(table.xs[context]), table.ys[context])
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            correct = predict(scaling.apply(table.xs[part])) == table.ys[part]
            hits[index, start : start + len(part)] = correct
    return hits


def check_features(name: str, features: int, dims: int) -> None:
    """Raises ConfigError for a table with more features than a model has dimensions."""
    if features > dims:
        raise ConfigError(
            "task.dims", f"is {dims}, and {name} has {features} features: task.dims={features}"
        )


def _inputs(scalings: list[Scaling], table: Table, rows: Rows, dims: int, left: bool) -> Tensor:
    """Rows [groups, n] as float32 inputs [groups, n, dims], standardised by their contexts."""
    scaled: list[Floats] = [
        model_inputs(scaling.apply(table.xs[group_rows]), dims, left)
        for scaling, group_rows in zip(scalings, rows, strict=True)
    ]
    return torch.from_numpy(np.stack(scaled)).float()


def _chunks(
    groups: list[Rows], group_size: int, size: int
) -> Iterator[tuple[int, Rows, NDArray[np.bool_]]]:
    """The groups' rows [groups, n] in chunks of `size`: the first position in the groups, the rows,
    and the mask of those that exist; after a group's end its first row is repeated."""
    for start in range(0, group_size, size):
        width = min(size, group_size - start)
        rows = np.stack([np.resize(group[:1], width) for group in groups])
        mask = np.zeros(rows.shape, bool)
        for index, group in enumerate(groups):
            chunk = group[start : start + width]
            rows[index, : len(chunk)], mask[index, : len(chunk)] = chunk, True
        yield start, rows, mask
