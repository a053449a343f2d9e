"""Which rows make a context, and how columns are scaled."""

import numpy as np
import pytest
from numpy.random import RandomState

from looplab.openml_eval.context import Scaling, context_rows, model_inputs


@pytest.mark.parametrize("labelled", [False, True])
def test_rows_are_used_up_before_one_comes_again(labelled: bool) -> None:
    labels = np.arange(23) % 2 if labelled else None
    rows = context_rows(RandomState(0), 23, 7, 5, labels)
    assert rows.shape == (5, 7)
    for context in rows:
        assert len(set(context)) == 7
    assert len(set(rows[:3].ravel())) == 21
    assert set(rows[:4].ravel()) == set(range(23))


def test_labels_are_shared_out_evenly() -> None:
    """As many of each in every context as the whole holds, to one row, in no fixed places."""
    labels = (np.arange(500) < 150).astype(np.int64)
    rows = context_rows(RandomState(0), 500, 40, 20, labels)
    ones = labels[rows].sum(1)
    assert np.abs(ones - 12).max() <= 1
    assert (labels[rows].mean(0) > 0).sum() > 30


def test_columns_are_standardised_and_back() -> None:
    values = RandomState(0).normal(size=(50, 4)) * [1, 1e-8, 1e9, 0] + [3, 1, 0, 0.1]
    scaling = Scaling.of(values)
    scaled = scaling.apply(values)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled[:, :3].std(0), 1)
    assert (scaled[:, 3] == 0).all()
    assert (scaling.apply(values + 5)[:, 3] == 0).all()
    np.testing.assert_allclose(scaling.undo(scaled), values, rtol=1e-12)


def test_missing_values_are_left_out_of_the_scaling_and_are_its_mean() -> None:
    values = RandomState(0).normal(size=(50, 3)) + 4
    values[::3, 0], values[:, 1] = np.nan, np.nan
    scaled = Scaling.of(values).apply(values)
    present = values[~np.isnan(values[:, 0]), 0]
    expected = np.where(np.isnan(values[:, 0]), 0, (values[:, 0] - present.mean()) / present.std())
    np.testing.assert_allclose(scaled[:, 0], expected)
    assert (scaled[:, 1] == 0).all()


def test_inputs_are_cut_where_a_task_cuts_them() -> None:
    inputs = model_inputs(np.array([[-5.0, 3.0]]), dims=3, left=True, clip=4.0)
    np.testing.assert_array_equal(inputs, [[0, -4, 3]])
