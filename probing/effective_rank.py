"""In how many directions states differ between prompts."""

from __future__ import annotations

import torch
from torch import Tensor

_LEAST = (
    1e-6  # of the states' own size: smaller differences drown in the rounding of their products
)


def effective_rank(singular_values: Tensor) -> float:
    """exp of the entropy of singular values [m] divided by their sum (Roy & Vetterli 2007): m where
    all are equal, 1 where there is only one; nan where all are zero."""
    share = singular_values / singular_values.sum()
    return float(torch.special.entr(share).sum().exp())


class StateSpread:
    """The effective rank of states by loop, from batch after batch of prompts.

    The matrix has a row for each prompt and position, centred at each position: what is the same in
    all prompts is not counted. Only its Gram matrix [n_embd, n_embd] is kept, one for each loop.
    """

    def __init__(self) -> None:
        self._grams: dict[int, Tensor] = {}
        self._sums: dict[int, Tensor] = {}
        self._prompts: dict[int, int] = {}

    def add(self, loop: int, states: Tensor) -> None:
        """The states [B, n, n_embd] of more prompts after a loop, float64."""
        rows = states.flatten(0, 1)
        gram, total = rows.T @ rows, states.sum(0)
        if loop in self._grams:
            gram, total = gram + self._grams[loop], total + self._sums[loop]
        self._grams[loop], self._sums[loop] = gram, total
        self._prompts[loop] = self._prompts.get(loop, 0) + len(states)

    def by_loop(self) -> list[float]:
        """One effective rank a loop, in order; nan where prompts do not differ."""
        return [self._rank(loop) for loop in sorted(self._grams)]

    def _rank(self, loop: int) -> float:
        gram, total = self._grams[loop], self._sums[loop]
        centred = gram - total.T @ total / self._prompts[loop]
        values = torch.linalg.eigvalsh(centred).clamp_min(0).sqrt()
        size = torch.linalg.matrix_norm(gram, 2).sqrt()
        return effective_rank(values * (values > _LEAST * size))
