"""The published evaluation, flaws included: the held-out table is standardised by all of its rows;
each row of a random 5 % of them is a query with 40 others of these 5 % as its context.

as_is, swapped = reference_accuracies(classifier, table, points=41, seed=4242)
"""

from __future__ import annotations

import numpy as np
import torch

from reloop.conf.mistakes import RunError
from reloop.tasks import Prompts
from reloop.tasks.tables import reference_split

from .context import Scaling, model_inputs
from .scoring import TrainedModel, check_features
from .tables.table import Table

FIRST_SEED = 4242
_MAX_QUERIES = 5000
_PROMPT_CHUNK = 64


@torch.no_grad()
def reference_accuracies(
    classifier: TrainedModel, table: Table, points: int, seed: int
) -> tuple[float, float]:
    """The accuracy on the rows of the split, at most 5,000, each from points - 1 others drawn by
    `seed`, after the classifier's loops: with labels as given, as published, and swapped.

    Raises RunError for a split too small for one prompt.
    """
    dims = classifier.model.spec.dims
    check_features(table.name, table.xs.shape[1], dims)
    _, split = reference_split(len(table.ys))
    if len(split) < points:
        raise RunError(
            f"{table.name}: 5 % of {len(table.ys)} rows are {len(split)}, and a prompt takes "
            f"{points}; protocol=corrected asks about all rows"
        )
    # Column by column, so that a large table is not in memory twice.
    scaled = np.stack([Scaling.of(column).apply(column[split]) for column in table.xs.T], axis=1)
    xs = torch.from_numpy(model_inputs(scaled, dims, classifier.task.left_padded)).float()
    classes = torch.from_numpy(table.ys[split])
    labels = torch.tensor(classifier.task.labels, dtype=torch.float32)
    random, count = np.random.default_rng(seed), min(len(split), _MAX_QUERIES)
    correct = [0, 0]
    for start in range(0, count, _PROMPT_CHUNK):
        queries = range(start, min(start + _PROMPT_CHUNK, count))
        rows = torch.stack([_prompt(random, query, len(split), points) for query in queries])
        for swapped in (0, 1):
            prompt_classes = classes[rows] ^ swapped
            prompts = Prompts(xs[rows], labels[prompt_classes]).to(classifier.device)
            answers = classifier.model(prompts, classifier.loops, 1)[0, :, -1].argmax(-1).cpu()
            correct[swapped] += int((answers == prompt_classes[:, -1]).sum())
    return correct[0] / count, correct[1] / count


def _prompt(random: np.random.Generator, query: int, rows: int, points: int) -> torch.Tensor:
    """Row indices of a prompt: other rows in random order, then the query."""
    indices = random.choice(rows - 1, points - 1, replace=False)
    return torch.from_numpy(np.append(indices + (indices >= query), query))
