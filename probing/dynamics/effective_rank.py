"""In how many directions states differ between prompts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_ALIKE = 1e-12  # of the states' own size: smaller differences are rounding
_LEAST = 1e-7  # of the largest singular value: smaller ones drown in the rounding of its square


def effective_rank(singular_values: Tensor) -> float:
    """exp of the entropy of singular values [m] divided by their sum (Roy & Vetterli 2007): m where
    all are equal, 1 where there is only one; nan where all are zero."""
    share = singular_values / singular_values.sum()
    return float(torch.special.entr(share).sum().exp())


class StateSpread:
    """The effective rank of states by loop, from batch after batch of prompts.

    The matrix has a row for each prompt and position, centred at each position: what is the same in
    all prompts is not counted. Only its Gram matrix is kept, one for each loop.
    """

    def __init__(self) -> None:
        self._loops: dict[int, _Sums] = {}

    def add(self, loop: int, states: Tensor) -> None:
        """The states [B, n, n_embd] of more prompts after a loop, float64."""
        if loop not in self._loops:
            first = states[0].clone()
            self._loops[loop] = _Sums(first, 0, torch.zeros_like(first), first.new_zeros(()))
        known = self._loops[loop]
        differences = states - known.first
        rows = differences.flatten(0, 1)
        self._loops[loop] = _Sums(
            known.first,
            known.prompts + len(states),
            known.total + differences.sum(0),
            known.gram + rows.T @ rows,
        )

    def by_loop(self) -> list[float]:
        """One effective rank a loop, in order; nan where prompts do not differ."""
        return [_rank(self._loops[loop]) for loop in sorted(self._loops)]


class _Sums(NamedTuple):
    """The states of one prompt [n, n_embd]; the number of prompts, and the sum and the Gram matrix
    [n_embd, n_embd] of their differences from that one: in products of the states themselves small
    differences would drown."""

    first: Tensor
    prompts: int
    total: Tensor
    gram: Tensor


def _rank(sums: _Sums) -> float:
    centred = sums.gram - sums.total.T @ sums.total / sums.prompts
    values = torch.linalg.eigvalsh(centred).clamp_min(0).sqrt()
    own_size = sums.first.norm() * sums.prompts**0.5
    if values[-1] <= _ALIKE * own_size:
        return torch.nan
    return effective_rank(values * (values > _LEAST * values[-1]))
