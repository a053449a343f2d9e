"""The published iso-depth experiment (arXiv 2604.21106): its counts, its runs with losses of a law.

table = sample_table(published_law(), noise=0.003, seed=0)      # 116 rows, as if measured
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame

from looplab.experiments.scaling_law.law import COLUMNS, Law

_BATCH = 2**18  # tokens
_ONCE, _REC = 4, 16  # blocks outside the loop (prelude 2, coda 2) and, over r, inside
_POSITIONS = 2048  # a sequence's
_VOCABULARY = 32064  # 32,001 tokens, padded to a multiple of 64


class Counts(NamedTuple):
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


@cache
def published() -> Any:
    """What is published, with sources."""
    return json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))


def width(size: int) -> int:
    """Model width of a size s: 64 s, rounded up to a multiple of the heads' 128."""
    return -(-64 * size // 128) * 128


def published_law() -> Law:
    """The law that the authors report."""
    law = {name: value for name, value in published()["law"].items() if name != "source"}
    return Law(**law)


def sample_table(law: Law, noise: float, seed: int) -> DataFrame:
    """The 116 runs of the design with losses of this law times exp(ε), ε normal with standard
    deviation `noise`."""
    return noisy(design(), law, noise, seed)


def noisy(table: DataFrame, law: Law, noise: float = 0.0, seed: int = 0) -> DataFrame:
    """A table with losses of this law in place of its own, times exp(ε)."""
    normal = np.random.default_rng(seed).normal(0, noise, len(table))
    return table.assign(loss=law.loss(table) * np.exp(normal))


def design() -> DataFrame:
    """The 116 runs: N and D as trained, the published law's losses. A budget of C FLOPs gives
    C / (flops · batch) steps, rounded."""
    rows = []
    for entry in published()["design"]["grid"]:
        for r in published()["design"]["r"]:
            for size in entry["sizes"]:
                model = counts(width(size), r)
                tokens = _BATCH * round(entry["budget"] / (model.flops * _BATCH))
                rows.append((model.once, model.rec, r, tokens, 1.0, entry["budget"]))
    table = DataFrame(rows, columns=[*COLUMNS, "budget"]).astype(float)
    return noisy(table, published_law())


def crossed(
    size: list[float], data: list[float], loops: list[float], once: float = 1.0, rec: float = 16.0
) -> DataFrame:
    """Each size on each amount of data at each r; losses are 1."""
    axes = np.meshgrid(size, data, loops)
    n, amount, r = (axis.ravel() for axis in axes)
    columns = (once * n, rec * n / r, r, amount, np.ones(len(n)))
    return DataFrame(dict(zip(COLUMNS, columns, strict=True)))
