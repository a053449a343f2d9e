"""The runs of the published iso-depth experiment (arXiv 2604.21106) with losses of a law.

table = sample_table(published_law(), noise=0.003, seed=0)      # 116 rows, as if measured
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from looplab.experiments.scaling_law.law import Law
from looplab.experiments.scaling_law.published import counts, published, table_of
from looplab.experiments.scaling_law.table import ScalingTable

_BATCH = 2**18  # tokens


def width(size: int) -> int:
    """Model width of a size s: 64 s, rounded up to a multiple of the heads' 128."""
    return -(-64 * size // 128) * 128


def published_law() -> Law:
    """The law that the authors report."""
    law = {name: value for name, value in published()["law"].items() if name != "source"}
    return Law(**law)


def sample_table(law: Law, noise: float, seed: int) -> ScalingTable:
    """The 116 runs of the design with losses of this law times exp(ε), ε normal with standard
    deviation `noise`."""
    table = design()
    normal = np.random.default_rng(seed).normal(0, noise, len(table))
    return replace(table, loss=law.loss(table) * np.exp(normal))


def design() -> ScalingTable:
    """The 116 runs: N and D as trained, the published law's losses. A budget of C FLOPs gives
    C / (flops · batch) steps, rounded."""
    rows = []
    for entry in published()["design"]["grid"]:
        for r in published()["design"]["r"]:
            for size in entry["sizes"]:
                model = counts(width(size), r)
                tokens = _BATCH * round(entry["budget"] / (model.flops * _BATCH))
                rows.append((model.once, model.rec, r, tokens, 1.0, entry["budget"]))
    table = table_of(rows)
    return replace(table, loss=published_law().loss(table))
