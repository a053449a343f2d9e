"""The collapse rule's branches, the smoothing below it, and when a plateau is left."""

from __future__ import annotations

import numpy as np
import pytest

from reloop.experiments.stability.collapse import collapse, plateau_exit
from reloop.training.run_folder.metrics import smoothed

STEPS = 1000
FALLING = np.linspace(1.0, 0.2, STEPS)


def test_smoothed_is_the_weighted_mean_of_what_there_was() -> None:
    losses = np.random.default_rng(0).normal(size=(30, 2))
    found = smoothed(losses, decay=0.9)
    for step in range(30):
        weights = 0.9 ** np.arange(step, -1, -1)
        expected = (weights[:, None] * losses[: step + 1]).sum(0) / weights.sum()
        np.testing.assert_allclose(found[step], expected, rtol=1e-12)


def test_a_curve_that_falls_did_not_collapse() -> None:
    assert collapse(FALLING, final=0.2, plain=0.2) == ""


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value: float) -> None:
    losses = FALLING.copy()
    losses[500] = value
    assert collapse(losses) == "not finite"
    assert collapse(FALLING, final=value) == "not finite"


def test_back_up() -> None:
    """0.5 above its best at the end, and not only for a moment on the way."""
    back = np.where(np.arange(STEPS) < 600, FALLING, 1.2)
    assert collapse(back) == "ends 0.5 above its best"
    assert collapse(np.where(np.arange(STEPS) < 600, FALLING, 0.9)) == ""
    spike = FALLING + 3.0 * (np.abs(np.arange(STEPS) - 500) < 50)
    assert collapse(spike) == ""


def test_early_noise_is_no_best() -> None:
    losses = np.ones(STEPS)
    losses[:3] = 0.1
    assert collapse(losses) == ""
    assert plateau_exit(losses, 0.7) is None


def test_worse_than_one_loop() -> None:
    assert collapse(FALLING, final=0.31, plain=0.2) == "error above 1.5 x that of one loop"
    assert collapse(FALLING, final=0.29, plain=0.2) == ""
    assert collapse(FALLING, final=0.31) == ""


def test_plateau_is_left_where_the_smoothed_loss_falls() -> None:
    losses = np.where(np.arange(STEPS) < 400, 1.0, 0.2)
    # After m low losses about 1 - 0.8 (1 - 0.98^m) is left of it: 0.7 is passed at m = 24.
    assert plateau_exit(losses, 0.7) == 424
    assert plateau_exit(losses, 0.1) is None
    assert plateau_exit(np.full(STEPS, 0.5), 0.7) == 50
