"""Halting reads each prediction at the first loop over which it has moved little enough."""

import numpy as np
import pytest
import torch

from looplab.evaluation.errors import Halting, halted_at


def test_each_prediction_halts_by_itself() -> None:
    changes = torch.tensor([[torch.nan, 0.5, 0.1, 0.01], [torch.nan, 0.05, 0.9, 0.001]])
    errors = torch.tensor([[4.0, 3.0, 2.0, 1.0], [8.0, 7.0, 6.0, 5.0]])
    halted = Halting("state", 0.1, 4).start(torch.zeros(2))
    for loop in range(4):
        seen = {"state_change": changes[:, loop], "prediction_change": torch.zeros(2)}
        halted.update(loop + 1, errors[:, loop], seen)
    # At the tolerance counts as settled; what settled stays, though it moves again later.
    assert halted.values.tolist() == [2.0, 7.0]
    assert halted.loops.tolist() == [3.0, 2.0]


@pytest.mark.parametrize("latest", [9, 6, 1])
def test_the_same_rule_over_whole_curves(latest: int) -> None:
    rng = np.random.default_rng(0)
    errors, changes = rng.random((50, 9)), rng.random((50, 9)) * 0.5
    changes[:, 0] = np.nan
    before = changes.copy()
    error, loops = halted_at(errors, changes, 0.1, latest)
    halted = Halting("prediction", 0.1, latest).start(torch.zeros(50, dtype=torch.float64))
    for loop in range(9):
        seen = {"prediction_change": torch.from_numpy(changes[:, loop])}
        halted.update(loop + 1, torch.from_numpy(errors[:, loop]), seen)
    np.testing.assert_array_equal(error, halted.values.numpy())
    np.testing.assert_array_equal(loops, halted.loops.numpy())
    np.testing.assert_array_equal(changes, before)
    assert loops.max() == latest
    assert latest == 1 or 2 < loops.mean() < latest
