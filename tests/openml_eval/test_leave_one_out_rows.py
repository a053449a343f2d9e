"""No row of the held-out table reaches training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from openml_eval.store import write_table
from openml_eval.tables import Table
from tasks import Task, make_task

from .leave_out import ROWS, write_tables


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
        xs = task.sample(generator, 16, 9).xs.flatten(0, 1)[:, 1:]
        seen |= rounded(xs.numpy())
    own = {name: scaled_rows(data, name) for name in ROWS}
    assert not seen & own[held_out]
    others = set().union(*(own[name] for name in ROWS if name != held_out))
    assert len(seen & others) > 0.8 * len(others)
    assert seen <= others


def test_no_held_out_table_is_in_a_corrected_prompt(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("twins", "others"):
        xs = random.normal(size=(60, 2))
        if name == "twins":  # so that its prompts are known by their columns, however scaled
            xs[:, 1] = 3 - 2 * xs[:, 0]
        write_table(tmp_path, Table(name, ("a", "b"), xs, np.arange(60) % 2, ("no", "yes")))
    for held_out, expected in (("twins", False), ("others", True)):
        task = make(tmp_path, ("twins", "others"), held_out, "corrected")
        xs = task.sample(torch.Generator().manual_seed(0), 200, 9).xs.double().numpy()
        correlations = [abs(np.corrcoef(prompt[:, 1], prompt[:, 2])[0, 1]) for prompt in xs]
        assert (np.array(correlations) > 1 - 1e-6).all() == expected
        assert (np.array(correlations) > 1 - 1e-6).any() == expected


def scaled_rows(data: Path, name: str) -> set[tuple[float, ...]]:
    with np.load(data / f"{name}.npz") as file:
        xs = file["xs"]
    return rounded((xs - xs.mean(0)) / xs.std(0))


def rounded(rows: np.ndarray[tuple[int, ...], np.dtype[np.floating]]) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.round(rows.astype(float), 3).tolist()}
