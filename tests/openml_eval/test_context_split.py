"""Every row is asked about once, from other rows."""

from __future__ import annotations

import numpy as np
import pytest

from reloop.conf.mistakes import RunError
from reloop.openml_eval.scoring import split_contexts


@pytest.mark.parametrize(
    ("rows", "size", "contexts", "expected"),
    [(300, 40, 64, 64), (41, 40, 4, 41), (50, 40, 2, 5), (60, 3, 100, 60), (90, 40, 1, 2)],
)
def test_rows_are_dealt_once_and_contexts_hold_others(
    rows: int, size: int, contexts: int, expected: int
) -> None:
    split = split_contexts(rows, size, contexts, seed=0)
    assert len(split.groups) == expected
    np.testing.assert_array_equal(np.sort(np.concatenate(split.groups)), np.arange(rows))
    assert split.contexts.shape == (expected, size)
    for group, context in zip(split.groups, split.contexts, strict=True):
        assert len(set(context)) == size
        assert not set(context) & set(group)
        assert context.min() >= 0
        assert context.max() < rows
    assert split.group_size == max(len(group) for group in split.groups) <= -(-rows // expected)


def test_contexts_come_from_all_over_the_table() -> None:
    drawn = {row for seed in range(40) for row in split_contexts(60, 10, 6, seed).contexts[2]}
    assert drawn == set(range(60)) - set(split_contexts(60, 10, 6, 0).groups[2])


def test_a_seed_draws_contexts_and_never_moves_the_groups() -> None:
    first, again, other = (split_contexts(200, 20, 8, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.contexts, again.contexts)
    assert (first.contexts != other.contexts).any()
    for group, same in zip(first.groups, other.groups, strict=True):
        np.testing.assert_array_equal(group, same)
    assert (np.concatenate(first.groups) != np.arange(200)).any()


def test_a_table_that_is_all_context_is_refused() -> None:
    with pytest.raises(RunError, match="a table of 40 rows has none to ask about beside 40"):
        split_contexts(40, 40, 8, 0)
