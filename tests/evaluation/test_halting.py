"""Halting reads each prediction at the first loop over which it has moved little enough."""

import numpy as np
import pytest

from looplab.evaluation.errors import halted_at


def test_each_prediction_halts_by_itself() -> None:
    changes = np.array([[np.nan, 0.5, 0.1, 0.01], [np.nan, 0.05, 0.9, 0.001]])
    errors = np.array([[4.0, 3.0, 2.0, 1.0], [8.0, 7.0, 6.0, 5.0]])
    # At the tolerance counts as settled; what settled stays, though it moves again later.
    values, loops = halted_at(errors, changes, 0.1, latest=4)
    assert (values.tolist(), loops.tolist()) == ([2.0, 7.0], [3.0, 2.0])


@pytest.mark.parametrize(("latest", "at"), [(9, 4), (3, 3), (1, 1)])
def test_what_does_not_settle_is_read_at_the_latest_loop(latest: int, at: int) -> None:
    errors, changes = np.arange(1.0, 5.0)[None, None], np.full((1, 1, 4), 0.5)
    values, loops = halted_at(errors, changes, 0.1, latest)
    assert (values.tolist(), loops.tolist()) == ([[at]], [[at]])
    assert (changes == 0.5).all()
