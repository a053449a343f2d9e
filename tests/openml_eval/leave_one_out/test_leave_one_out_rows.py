"""No row of the held-out table reaches training. Under the corrected protocol rows cannot be found
again by their values; tests/tasks/test_tables.py shows that prompts do not depend on that table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reloop.tasks import Task, make_task
from tests.openml_eval.leave_out import ROWS, write_tables


def make(data: Path, tables: tuple[str, ...], held_out: str, protocol: str) -> Task:
    return make_task(
        "tables",
        3,
        0,
        {"data_dir": str(data), "tables": tables, "held_out": held_out, "protocol": protocol},
    )


@pytest.mark.parametrize("held_out", ["abalone", "third"])
def test_no_held_out_row_is_in_a_training_prompt(tmp_path: Path, held_out: str) -> None:
    data = write_tables(tmp_path / "data")
    # Under this protocol a row is the same in every prompt, so that it can be found again.
    task = make(data, tuple(ROWS), held_out, "reference")
    generator = torch.Generator().manual_seed(0)
    seen: set[tuple[float, ...]] = set()
    for _ in range(60):
        xs = task.sample(generator, 7, 9).xs.flatten(0, 1)[:, 1:]
        seen |= rounded(xs.numpy())
    own = {name: scaled_rows(data, name) for name in ROWS}
    assert not seen & own[held_out]
    others = set().union(*(own[name] for name in ROWS if name != held_out))
    assert len(seen & others) > 0.8 * len(others)
    assert seen <= others


def scaled_rows(data: Path, name: str) -> set[tuple[float, ...]]:
    with np.load(data / f"{name}.npz") as file:
        xs = file["xs"]
    return rounded((xs - xs.mean(0)) / xs.std(0))


def rounded(rows: np.ndarray[tuple[int, ...], np.dtype[np.floating]]) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.round(rows.astype(float), 3).tolist()}
