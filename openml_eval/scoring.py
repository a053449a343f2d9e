"""Hits: the rows of a table that a model or a solver classifies correctly from other rows.

hits = model_hits(run, table, split_contexts(len(table.ys), 40, 64, seed=0), slice(0, 8))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looplab.conf.mistakes import RunError
from looplab.models import Queries
from looplab.tasks import Prompts
from looplab.tasks.tables import reference_split
from looplab.training import Run
from looplab.training.assemble import trained_loops

from .context import Floats, Scaling, model_inputs
from .tables import Table

Hits = NDArray[np.uint8]
Rows = NDArray[np.int64]  # indices
Classes = NDArray[np.int64]
ABSENT = 255  # in place of a hit (1) or a miss (0), where a group has fewer rows than the largest
# Queries per pass beside a context: the attention mask has all pairs of queries.
_QUERY_CHUNK = 256
_MAX_QUERIES = 5000
_PROMPT_CHUNK = 64
_GROUPS, _CONTEXTS = 0, 1  # seeds of separate random streams
FIRST_SEED = 4242  # of the reference's draws of contexts
# Descriptions of scikit-learn's classifiers that stand beside a model, by short name.
SOLVERS = {
    "logistic": "logistic regression, C = 1",
    "k-NN": "5 nearest neighbours",
    "forest": "random forest of 100 trees",
    "boosting": "gradient boosting, 100 trees of depth 3, rate 0.1",
    "majority": "the majority class of the context",
}


@torch.no_grad()
def model_hits(
    run: Run,
    table: Table,
    split: ContextSplit,
    groups: slice,
    chunk: int = _QUERY_CHUNK,
) -> Hits:
    """Hits of a slice of the groups, [groups, group size, 2]: with the labels of the context as
    given and swapped. Features are standardised by the context only.

    A group's rows are queries beside one copy of its context, `chunk` at a time, with the same
    answers as in separate prompts.
    """
    dims, device = run.model.spec.dims, next(run.model.parameters()).device
    labels = torch.tensor(run.task.labels, dtype=torch.float32)
    loops = trained_loops(run.config)
    tokens = torch.stack((labels, labels.flip(0)))  # [polarity, class]
    chosen, contexts = split.groups[groups], split.contexts[groups]
    scalings = [Scaling.of(table.xs[context]) for context in contexts]
    left = run.task.left_padded
    xs = _inputs(scalings, table, contexts, dims, left)
    ys = tokens[:, torch.from_numpy(table.ys[contexts])].flatten(0, 1)
    prompts = Prompts(xs.repeat(2, 1, 1), ys).to(device)
    rows = np.stack([np.resize(group, split.group_size) for group in chosen])
    correct = np.empty((2, *rows.shape), bool)
    for start in range(0, split.group_size, chunk):
        part = rows[:, start : start + chunk]
        queries = _inputs(scalings, table, part, dims, left).repeat(2, 1, 1).to(device)
        context_sizes = torch.full((part.shape[1],), contexts.shape[1], device=device)
        answers = run.model(prompts, loops, 1, queries=Queries(queries, context_sizes))[0]
        classes = answers.argmax(-1).view(2, *part.shape).cpu().numpy()
        classes[1] = 1 - classes[1]
        correct[:, :, start : start + chunk] = classes == table.ys[part]
    # A smaller group is asked about its first row once more.
    present = np.arange(split.group_size) < np.array([[len(group)] for group in chosen])
    return np.where(present[..., None], correct.transpose(1, 2, 0), ABSENT).astype(np.uint8)


def solver_hits(
    name: str, table: Table, split: ContextSplit, groups: slice, chunk: int = _QUERY_CHUNK
) -> Hits:
    """A solver's hits of a slice of the groups, [groups, group size], from the same contexts,
    standardised as for a model; `chunk` rows at a time."""
    chosen = split.groups[groups]
    hits = np.full((len(chosen), split.group_size), ABSENT, np.uint8)
    for index, (rows, context) in enumerate(zip(chosen, split.contexts[groups], strict=True)):
        scaling = Scaling.of(table.xs[context])
        predict = solve(name, scaling.apply(table.xs[context]), table.ys[context])
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            correct = predict(scaling.apply(table.xs[part])) == table.ys[part]
            hits[index, start : start + len(part)] = correct
    return hits


def _inputs(scalings: list[Scaling], table: Table, rows: Rows, dims: int, left: bool) -> Tensor:
    """Rows [groups, n] as float32 inputs [groups, n, dims], standardised by their contexts."""
    scaled: list[Floats] = [
        model_inputs(scaling.apply(table.xs[group_rows]), dims, left)
        for scaling, group_rows in zip(scalings, rows, strict=True)
    ]
    return torch.from_numpy(np.stack(scaled)).float()


@torch.no_grad()
def reference_accuracies(run: Run, table: Table, points: int, seed: int) -> tuple[float, float]:
    """The accuracy on the rows of the split, at most 5,000, each from points - 1 others drawn by
    `seed`, after the run's loops: with labels as given, as published, and swapped.

    Raises RunError for a split too small for one prompt.
    """
    dims, device = run.model.spec.dims, next(run.model.parameters()).device
    _, split = reference_split(len(table.ys))
    if len(split) < points:
        raise RunError(
            f"{table.name}: 5 % of {len(table.ys)} rows are {len(split)}, and a prompt takes "
            f"{points}; protocol=corrected asks about all rows"
        )
    # Column by column, so that a large table is not in memory twice.
    scaled = np.stack([Scaling.of(column).apply(column[split]) for column in table.xs.T], axis=1)
    xs = torch.from_numpy(model_inputs(scaled, dims, run.task.left_padded)).float()
    classes = torch.from_numpy(table.ys[split])
    labels = torch.tensor(run.task.labels, dtype=torch.float32)
    random, count = np.random.default_rng(seed), min(len(split), _MAX_QUERIES)
    correct, loops = [0, 0], trained_loops(run.config)
    for start in range(0, count, _PROMPT_CHUNK):
        queries = range(start, min(start + _PROMPT_CHUNK, count))
        rows = torch.stack([_prompt(random, query, len(split), points) for query in queries])
        for swapped in (0, 1):
            prompt_classes = classes[rows] ^ swapped
            prompts = Prompts(xs[rows], labels[prompt_classes]).to(device)
            answers = run.model(prompts, loops, 1)[0, :, -1].argmax(-1).cpu()
            correct[swapped] += int((answers == prompt_classes[:, -1]).sum())
    return correct[0] / count, correct[1] / count


def _prompt(random: np.random.Generator, query: int, rows: int, points: int) -> torch.Tensor:
    """Row indices of a prompt: other rows in random order, then the query."""
    indices = random.choice(rows - 1, points - 1, replace=False)
    return torch.from_numpy(np.append(indices + (indices >= query), query))


@dataclass(frozen=True)
class ContextSplit:
    """Every row is in one of the `groups`, whose sizes differ by at most one row; the context of
    group g is the rows `contexts[g]` [size], of which none is in the group."""

    groups: Sequence[Rows]
    contexts: Rows

    @property
    def group_size(self) -> int:
        """The number of rows in the largest group."""
        return max(map(len, self.groups))


def split_contexts(rows: int, size: int, contexts: int, seed: int) -> ContextSplit:
    """Split a table's rows into `contexts` groups, more if that is needed to leave `size` rows
    outside each, and at most one per row.

    The groups are the same for all seeds, so that they can be resampled: neither a row nor a
    context belongs to two. RunError for a table with no more rows than a context.
    """
    if rows <= size:
        raise RunError(f"a table of {rows} rows has none to ask about beside {size} of context")
    count = min(rows, max(contexts, ceil(rows / (rows - size))))
    order = np.random.default_rng(_GROUPS).permutation(rows)
    groups = np.array_split(order, count)
    random = np.random.default_rng((_CONTEXTS, seed))
    context_rows, start = np.empty((count, size), np.int64), 0
    for index, group in enumerate(groups):
        indices = random.choice(rows - len(group), size, replace=False)
        context_rows[index] = order[indices + len(group) * (indices >= start)]
        start += len(group)
    return ContextSplit(groups, context_rows)


def solve(name: str, xs: Floats, ys: Classes) -> Callable[[Floats], Classes]:
    """Fit a solver to a context's rows xs [k, features] and classes ys [k]; returns its function
    from rows [m, features] to classes [m]. For a context of one class it predicts that class."""
    zeros, ones = np.bincount(ys, minlength=2)
    if name == "majority" or not zeros or not ones:
        # A tie gives class 0.
        return lambda rows: np.full(len(rows), int(ones > zeros), np.int64)
    # Imported here, as scoring a model does not need them.
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    models = {
        "logistic": LogisticRegression(max_iter=1000),
        "k-NN": KNeighborsClassifier(min(5, len(ys))),
        "forest": RandomForestClassifier(n_estimators=100, random_state=0),
        "boosting": GradientBoostingClassifier(random_state=0),
    }
    model = models[name].fit(xs, ys)
    return lambda rows: model.predict(rows)
