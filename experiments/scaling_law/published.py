"""The minima that the authors of the iso-depth experiment (arXiv 2604.21106) report, and the counts
of its models. Numbers and sources are in published.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .table import ScalingTable

_PATH = Path(__file__).with_suffix(".json")
_ONCE, _REC = 4, 16  # blocks outside the loop (prelude 2, coda 2) and, over r, inside
_POSITIONS = 2048  # a sequence's
_VOCABULARY = 32064  # 32,001 tokens, padded to a multiple of 64


@dataclass(frozen=True)
class Counts:
    """Parameters of a model without embedding and head, and the FLOPs of training it on a
    token."""

    once: float
    rec: float
    flops: float


def counts(d: float, r: int) -> Counts:
    """The counts of the model of width d whose 16 / r shared blocks run r times.

    A block holds 12 d² weights (attention 4, its MLP 8) and two norms of d. From r = 2 on the
    injection, 2 d², runs with the loop but is counted among what runs once, as the authors do; at
    r = 1 there is none, and 16 of the 20 blocks count as the loop's. FLOPs: 6 per weight and use,
    including the head, and 12 d T per block for attention.
    """
    block = 12 * d**2 + 2 * d
    inject = 2 * d**2 if r > 1 else 0.0
    rec = _REC / r * block
    head = _VOCABULARY * d
    attention = 12 * (_ONCE + _REC) * d * _POSITIONS
    flops = 6 * (_ONCE * block + head) + 6 * r * (rec + inject) + attention
    return Counts(_ONCE * block + inject, rec, flops)


def minima() -> ScalingTable:
    """The authors' 24 empirical minima, one for each r and budget. Only N is printed: the
    (fractional) width with as many parameters gives N_once and N_rec, and the budget gives D."""
    rows = []
    for cell in published()["minima"]["cells"]:
        r, budget = cell["r"], cell["budget"]
        model = counts(_width_of(cell["N"] * 1e6, r), r)
        rows.append((model.once, model.rec, r, budget / model.flops, cell["loss"], budget))
    return table_of(rows)


def _width_of(parameters: float, r: int) -> float:
    """The width d of a model with these parameters = quadratic · d² + linear · d."""
    blocks = _ONCE + _REC / r
    quadratic, linear = 12 * blocks + (2 if r > 1 else 0), 2 * blocks
    return float((-linear + np.sqrt(linear**2 + 4 * quadratic * parameters)) / (2 * quadratic))


def table_of(rows: Sequence[tuple[float, ...]]) -> ScalingTable:
    """A table of N_once, N_rec, r, D, loss and budget of each model."""
    columns = np.array(rows, dtype=np.float64).T
    once, rec, r, data, loss, budget = columns
    labels = {"budget": tuple(f"{value:.3g}" for value in budget)}
    return ScalingTable(once, rec, r, data, loss, labels)


@cache
def published() -> Any:
    """The content of published.json."""
    return json.loads(_PATH.read_text(encoding="utf-8"))
