"""The published evaluation, flaws included: the held-out table standardised by all of its rows, and
of a random twentieth of them each answered from 40 others of that twentieth.

as_is, swapped = reference_accuracies(trained, table, points=41, seed=4242)
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
_MOST = 5000  # rows that are asked about
_AT_ONCE = 64


@torch.no_grad()
def reference_accuracies(
    trained: TrainedModel, table: Table, points: int, seed: int
) -> tuple[float, float]:
    """The share of rows of the split, at most 5,000, whose class is found from points - 1 others
    drawn by `seed`, after the trained's loops: with labels as they are, as published, and swapped.

    Raises RunError for a split too small for one prompt.
    """
    dims = trained.model.spec.dims
    check_features(table.name, table.xs.shape[1], dims)
    _, split = reference_split(len(table.ys))
    if len(split) < points:
        raise RunError(
            f"{table.name}: 5 % of {len(table.ys)} rows are {len(split)}, and a prompt takes "
            f"{points}; protocol=corrected asks about all rows"
        )
    # Column by column: a large table is not to stand in memory twice.
    scaled = np.stack([Scaling.of(column).apply(column[split]) for column in table.xs.T], axis=1)
    xs = torch.from_numpy(model_inputs(scaled, dims, trained.task.left_padded)).float()
    classes = torch.from_numpy(table.ys[split])
    labels = torch.tensor(trained.task.labels)
    random, asked = np.random.default_rng(seed), min(len(split), _MOST)
    right = [0, 0]
    for start in range(0, asked, _AT_ONCE):
        queries = range(start, min(start + _AT_ONCE, asked))
        rows = torch.stack([_prompt(random, query, len(split), points) for query in queries])
        for swapped in (0, 1):
            named = classes[rows] ^ swapped
            prompts = Prompts(xs[rows], labels[named]).to(trained.device)
            answers = trained.model(prompts, trained.loops, 1)[0, :, -1].argmax(-1).cpu()
            right[swapped] += int((answers == named[:, -1]).sum())
    return right[0] / asked, right[1] / asked


def _prompt(random: np.random.Generator, query: int, rows: int, points: int) -> torch.Tensor:
    """Row numbers of a prompt: others in random order, then the query."""
    others = random.choice(rows - 1, points - 1, replace=False)
    return torch.from_numpy(np.append(others + (others >= query), query))
