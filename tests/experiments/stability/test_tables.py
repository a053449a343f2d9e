"""Means with standard errors, and slopes."""

from __future__ import annotations

import numpy as np
import pytest

from looplab.experiments.stability.tables import slopes, with_errors


def test_slopes_are_those_of_power_laws_from_the_least_loops_on() -> None:
    loops = np.array([1, 2, 4, 8, 16])
    laws = np.stack([3 * loops**1.5, 0.2 * loops**-0.5, 7.0 * loops**0.0])
    laws[:, :2] = 100.0  # before the law begins
    assert slopes(loops.tolist(), laws, 4) == pytest.approx([1.5, -0.5, 0])
    noisy = loops**0.5 * np.array([1.0, 1.1, 0.9, 1.2, 1.0])
    fit = np.polyfit(np.log(loops[1:]), np.log(noisy[1:]), 1)[0]
    assert float(slopes(loops.tolist(), noisy, 2)) == pytest.approx(fit)


def test_a_standard_error_is_of_the_mean_over_seeds() -> None:
    values = np.array([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]])
    found = with_errors(values)
    assert found["mean"] == [3, 5]
    assert found["standard_error"] == pytest.approx([np.sqrt(7 / 3), 0])
    assert found["by_seed"] == values.tolist()
