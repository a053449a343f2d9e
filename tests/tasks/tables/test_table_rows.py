"""Rows of tables: drawn without replacement, every choice alike, and standardised by the context
alone."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from looplab.conf.mistakes import RunError
from looplab.tasks.random_source import FreshNumbers, NumberedPrompts
from looplab.tasks.table_rows import distinct, load_rows, standardised, table_sizes
from tests.tasks.conftest import assert_frequencies, generator
from tests.tasks.small_tables import SIZES, classes, inputs, write

CPU = torch.device("cpu")


@given(st.lists(st.integers(7, 10**9), min_size=1, max_size=9), st.integers(1, 7), st.integers(0))
def test_numbers_are_different_and_rows_of_the_table(
    counts: list[int], points: int, seed: int
) -> None:
    random = FreshNumbers(generator(seed % 2**63), len(counts))
    chosen = distinct(random, torch.tensor(counts), points)
    assert chosen.shape == (len(counts), points)
    assert (chosen >= 0).all()
    assert (chosen < torch.tensor(counts)[:, None]).all()
    assert all(len(set(row)) == points for row in chosen.tolist())


@pytest.mark.parametrize("numbered", [False, True])
def test_every_ordered_choice_is_equally_likely(numbered: bool) -> None:
    batch = 24_000
    random = (
        NumberedPrompts(torch.arange(batch), 3) if numbered else FreshNumbers(generator(), batch)
    )
    chosen = distinct(random, torch.full((batch,), 4), 3)
    possible = torch.tensor(list(permutations(range(4), 3)))
    assert_frequencies((chosen[:, None] == possible).all(2), 1 / len(possible))


def test_every_row_of_a_large_table_is_reached() -> None:
    """24 random bits alone would give multiples of 64, but for the last few."""
    chosen = distinct(FreshNumbers(generator(), 2000), torch.full((2000,), 2**30), 5)
    assert_frequencies((chosen % 64 == 0).any(1)[:, None], 1 - (63 / 64) ** 5)
    assert (chosen % 61).unique().numel() == 61


def test_a_prompts_inputs_have_mean_zero_and_variance_one_in_its_context() -> None:
    """In which the query has no part. What is constant there is zero, even if its mean rounds."""
    xs = 5 + 3 * torch.randn(4, 11, 6, generator=generator())
    xs[:, :-1, 0] = 0.1  # constant: its sum of ten is not ten times it
    xs[:, -1] = 100.0
    found = standardised(xs)
    assert (found[:, :, 0] == 0).all()
    context = found[:, :-1, 1:]
    torch.testing.assert_close(context.mean(1), torch.zeros(4, 5), atol=1e-6, rtol=0)
    torch.testing.assert_close(context.std(1, correction=0), torch.ones(4, 5))
    assert (found[:, -1, 1:] > 10).all()


def test_tables_are_packed_one_after_another(tmp_path: Path) -> None:
    names = ("gamma", "beta")
    rows = load_rows(str(write(tmp_path)), names, CPU)
    assert rows.first.tolist() == [0, 400]
    assert rows.count.tolist() == [400, 240]
    assert rows.features.tolist() == [2, 5]
    assert rows.xs.dtype == torch.float32
    assert (rows.xs[:400, :3] == 0).all()
    for name, first in zip(names, rows.first.tolist(), strict=True):
        xs, count = inputs(name), len(inputs(name))
        expected = torch.from_numpy((xs - xs.mean(0)) / xs.std(0)).float()
        found = rows.xs[first : first + count, 5 - xs.shape[1] :]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert rows.classes[first : first + count].tolist() == classes(name).tolist()


def test_columns_that_vary_by_little_beside_their_mean_keep_their_digits(tmp_path: Path) -> None:
    xs = 1e6 + 1e-3 * np.arange(50.0)[:, None] ** [1, 2]
    np.savez(tmp_path / "far.npz", xs=np.c_[xs, 1e300 * xs], ys=np.arange(50) % 2)
    found = load_rows(str(tmp_path), ("far",), CPU).xs
    line = torch.arange(50.0) - 24.5
    torch.testing.assert_close(found[:, 0], line / line.std(correction=0), atol=1e-5, rtol=0)
    torch.testing.assert_close(found[:, :2], found[:, 2:], atol=1e-5, rtol=0)


def test_a_table_is_read_again_where_its_file_has_changed(tmp_path: Path) -> None:
    folder = str(write(tmp_path))
    before = load_rows(folder, ("gamma",), CPU)
    assert load_rows(folder, ("gamma",), CPU) is before
    np.savez(tmp_path / "gamma.npz", xs=inputs("beta"), ys=classes("beta"))
    assert load_rows(folder, ("gamma",), CPU).count.tolist() == [240]


def test_what_is_absent_or_damaged_is_told(tmp_path: Path) -> None:
    folder = str(write(tmp_path))
    assert table_sizes(folder, tuple(SIZES)) == SIZES
    path = tmp_path / "beta.npz"
    path.write_bytes(path.read_bytes()[:500])
    for name in ("beta", "delta"):
        with pytest.raises(
            RunError, match=rf"{name}\.npz.*action=fetch tables={name}\.csv data_dir="
        ):
            load_rows(folder, (name,), CPU)
        with pytest.raises(RunError, match=rf"{name}\.npz"):
            table_sizes(folder, (name,))
