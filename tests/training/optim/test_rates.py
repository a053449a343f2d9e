"""The shape of the learning rate over a run."""

from __future__ import annotations

import math

import pytest

from reloop.conf.schema import TrainingConfig
from reloop.training.optim.optimizers import learning_rate


def test_the_rate_is_constant_by_default() -> None:
    training = TrainingConfig(steps=10, learning_rate=0.5)
    assert [learning_rate(training, step) for step in range(10)] == [0.5] * 10


def test_the_rate_warms_up_stands_and_falls() -> None:
    """Never zero in a step that is made; it would be at the step after the last."""
    training = TrainingConfig(steps=20, learning_rate=2.0, warmup=4, decay=0.25)
    rates = [learning_rate(training, step) for step in range(21)]
    assert rates[:4] == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert rates[4:16] == [2.0] * 12
    assert rates[15:] == pytest.approx([2.0, 1.6, 1.2, 0.8, 0.4, 0.0])


def test_warm_up_and_decay_may_overlap() -> None:
    """The rate is then the product of both."""
    training = TrainingConfig(steps=10, learning_rate=1.0, warmup=10, decay=1.0)
    for step in range(10):
        wanted = (step + 1) / 10 * (10 - step) / 10
        assert math.isclose(learning_rate(training, step), wanted)


def test_another_peak_has_the_same_shape() -> None:
    training = TrainingConfig(steps=20, learning_rate=2.0, warmup=4, decay=0.25, decay_to=0.1)
    for step in range(21):
        ours = learning_rate(training, step, 0.03)
        assert math.isclose(ours, 0.015 * learning_rate(training, step))


# The three papers' settings: what differs from the defaults, and the fraction of the peak at steps
# of their own, the corners among them.
_STABLE_DECAY = {"steps": 20_000, "warmup": 500, "decay": 0.05}  # arXiv 2606.18524
_TRAPEZOID = {"steps": 5_000, "decay": 0.2}  # arXiv 2605.18797
_TO_A_TENTH = {"steps": 1_000, "decay": 1.0, "decay_to": 0.1}  # arXiv 2604.21106
_NAMED = [
    *((_STABLE_DECAY, step, (step + 1) / 500) for step in (0, 1, 250, 498)),
    *((_STABLE_DECAY, step, 1.0) for step in (499, 500, 10_000, 18_999, 19_000)),
    *((_STABLE_DECAY, 19_000 + past, 1 - past / 1000) for past in (1, 500, 999, 1000)),
    *((_TRAPEZOID, step, 1.0) for step in (0, 1, 3_999, 4_000)),
    *((_TRAPEZOID, 4_000 + past, 1 - past / 1000) for past in (1, 500, 999, 1000)),
    *((_TO_A_TENTH, step, 1 - 0.9 * step / 1000) for step in (0, 1, 500, 999, 1000)),
]


@pytest.mark.parametrize(("settings", "step", "fraction"), _NAMED)
def test_the_papers_schedules(settings: dict[str, float], step: int, fraction: float) -> None:
    training = TrainingConfig(learning_rate=0.3, **settings)  # type: ignore[arg-type]
    assert learning_rate(training, step) == pytest.approx(0.3 * fraction, rel=1e-12, abs=1e-15)
