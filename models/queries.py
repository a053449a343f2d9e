"""Many queries after one shared context, answered in one pass: the queries, and the layout of
their tokens after the prompt's.

queries = Queries(xs, seen=torch.full((50,), prompts.xs.shape[1]))   # 50 per prompt, xs [B, 50, d]
predictions = model(prompts, loops=30, queries=queries)               # [1, B, 50]
"""

from typing import NamedTuple

import torch
from torch import Tensor

ALL_TOKENS = slice(None)
X_TOKENS = slice(None, None, 2)  # of a prompt alone: the x positions


class Queries(NamedTuple):
    """Inputs `xs` [B, m, d], m for each of B prompts, and the number of its prompt's pairs that
    query j attends to: `seen` [m], int64, the same for all prompts."""

    xs: Tensor
    seen: Tensor


class Layout(NamedTuple):
    """The arrangement of S tokens: their `positions` [S] (None: 0 .. S - 1), the `mask` [S, S] that
    is true where a token (row) attends to another (column) (None: to itself and all before it), and
    the tokens `read` by the read-out."""

    positions: Tensor | None
    mask: Tensor | None
    read: slice


SEQUENCE = Layout(None, None, ALL_TOKENS)  # of a text, read at every token


def read_at(layout: Layout | None) -> slice:
    """The tokens whose streams the read-out takes."""
    return X_TOKENS if layout is None else layout.read


def lay_out(queries: Queries, xs: Tensor) -> Layout:
    """The layout of the 2n tokens of prompts with inputs xs [B, n, d], and of the queries after
    them. Query j has the position of x number seen[j] (2n where it has seen all), and attends to
    the tokens before that and to itself; prompts attend causally, and never to queries.

    Raises ValueError where a query has seen more pairs than there are.
    """
    points = xs.shape[1]
    device = xs.device
    if ((queries.seen < 0) | (queries.seen > points)).any():
        raise ValueError(f"queries can have seen 0 to {points} pairs, got {queries.seen.tolist()}")
    # x number j stands at 2j: a query takes the place of the x that would come next.
    positions = torch.cat((torch.arange(2 * points, device=device), 2 * queries.seen.to(device)))
    tokens = torch.arange(len(positions), device=device)
    # No position lies beyond the prompt's end, so no token attends to another query.
    mask = (tokens < positions[:, None]) | (tokens == tokens[:, None])
    return Layout(positions, mask, slice(2 * points, None))
