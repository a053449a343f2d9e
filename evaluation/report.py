"""An evaluation as a table for the terminal, and several runs as one with their spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from .figures import curves


def table(result: Mapping[str, Any]) -> str:
    """Errors by number of examples, the model beside the baselines, at a handful of k."""
    ks = handful(result)
    rows = [["k", *map(str, ks)]]
    rows += [
        [label, *(f"{curve['mean'][k]:.3g}" for k in ks)]
        for label, curve in curves(result).values()
    ]
    return _aligned(rows)


def seeds_table(results: Mapping[int, Mapping[str, Any]]) -> str:
    """The model's errors at b loops for each seed, with mean and standard deviation over seeds."""
    ks = handful(next(iter(results.values())))
    values = {
        seed: [result["by_examples"]["model_at_b"]["mean"][k] for k in ks]
        for seed, result in results.items()
    }
    rows = [["k", *map(str, ks)]]
    rows += [[f"seed {seed}", *(f"{value:.3g}" for value in row)] for seed, row in values.items()]
    columns = list(zip(*values.values(), strict=True))
    rows.append(["mean", *(f"{mean(column):.3g}" for column in columns)])
    rows.append(["spread (std)", *(f"{stdev(column):.3g}" for column in columns)])
    return _aligned(rows)


def handful(result: Mapping[str, Any]) -> list[int]:
    """No examples, then around d/2, d and 2 d, and as many as there are."""
    last = result["by_examples"]["k"][-1]
    d = result["dims"]
    wanted = {0, 1, d // 2, d - 1, d, d + d // 2, 2 * d, last}
    return sorted(k for k in wanted if 0 <= k <= last)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    first = max(len(row[0]) for row in rows)
    return "\n".join(
        row[0].ljust(first) + "".join(cell.rjust(10) for cell in row[1:]) for row in rows
    )
