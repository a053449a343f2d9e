"""The effective rank of states: in how many directions they differ between prompts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_ALIKE = 1e-12  # of the states' size: smaller differences are rounding
_LEAST = 1e-7  # of the largest singular value: smaller ones are below the rounding of its square


def effective_rank(singular_values: Tensor) -> float:
    """exp of the entropy of singular values [m] divided by their sum (Roy & Vetterli 2007): m if
    all are equal, 1 if only one is not zero; nan if all are zero."""
    share = singular_values / singular_values.sum()
    return float(torch.special.entr(share).sum().exp())


class StateSpread:
    """The effective rank of states by loop, computed batch by batch.

    The matrix has a row for each prompt and position, centred at each position: what all prompts
    have in common does not count. Only its Gram matrix is stored, one for each loop.
    """

    def __init__(self) -> None:
        self._loops: dict[int, _Sums] = {}

    def add(self, loop: int, states: Tensor) -> None:
        """Add the states [B, n, n_embd] of further prompts after a loop, float64."""
        if loop not in self._loops:
            first = states[0].clone()
            self._loops[loop] = _Sums(first, 0, torch.zeros_like(first), first.new_zeros(()))
        sums = self._loops[loop]
        differences = states - sums.first
        rows = differences.flatten(0, 1)
        self._loops[loop] = _Sums(
            sums.first,
            sums.prompts + len(states),
            sums.total + differences.sum(0),
            sums.gram + rows.T @ rows,
        )

    def by_loop(self) -> list[float]:
        """The effective rank after each loop; nan if the prompts do not differ."""
        return [_rank(self._loops[loop]) for loop in sorted(self._loops)]


class _Sums(NamedTuple):
    """The states of one prompt [n, n_embd]; the number of prompts, and the sum and the Gram matrix
    [n_embd, n_embd] of their differences from that one: products of the states themselves would
    lose small differences to rounding."""

    first: Tensor
    prompts: int
    total: Tensor
    gram: Tensor


def _rank(sums: _Sums) -> float:
    centred = sums.gram - sums.total.T @ sums.total / sums.prompts
    values = torch.linalg.eigvalsh(centred).clamp_min(0).sqrt()
    scale = sums.first.norm() * sums.prompts**0.5
    if values[-1] <= _ALIKE * scale:
        return torch.nan
    return effective_rank(values * (values > _LEAST * values[-1]))
