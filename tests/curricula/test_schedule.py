"""Schedules against a counter that is moved step by step and against the papers' tables; drawn
loops against their laws, which are computed here by quadrature."""

from __future__ import annotations

from itertools import pairwise
from math import exp, lgamma, log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from looplab.curricula import SampledLoops, Schedule


def simulate(schedule: Schedule, steps: int) -> list[int]:
    """The value at each of so many steps: a counter that grows whenever its time has come."""
    value, left, held = schedule.start, list(schedule.intervals), 0
    values = []
    for _ in range(steps):
        values.append(value)
        held += 1
        if held == left[0]:
            value, held = min(value + schedule.inc, schedule.end), 0
            left = left[1:] or left
    return values


def first_step_at(schedule: Schedule, value: int) -> int:
    """The first step at which the schedule has this value."""
    return next(step for step in range(200_000) if schedule(step) == value)


SCHEDULES = [
    Schedule(5, 20, 1, (7,)),
    Schedule(1, 10, 4, (3,)),
    Schedule(2, 3, 5, (4,)),
    Schedule(0, 6, 1, (1,)),
    Schedule(4, 4, 1, (1,)),
    Schedule(1, 9, 2, (5, 1, 3)),
    Schedule(1, 30, 3, (1, 10, 2, 4)),
    Schedule(3, 7, 1, (50, 1)),
    Schedule(-3, 5, 2, (2, 3)),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_values_are_those_of_a_counter(schedule: Schedule) -> None:
    assert [schedule(step) for step in range(120)] == simulate(schedule, 120)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_values_grow_and_stop_at_the_end(schedule: Schedule) -> None:
    values = [schedule(step) for step in range(120)]
    assert values[0] == schedule.start
    assert values[-1] == schedule.end
    assert all(before <= after for before, after in pairwise(values))
    assert all(after - before <= schedule.inc for before, after in pairwise(values))
    assert schedule(10**12) == schedule.end


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_order_of_questions_does_not_matter(schedule: Schedule) -> None:
    """Pure: no question changes the answer to another."""
    forwards = [schedule(step) for step in range(60)]
    backwards = [schedule(step) for step in reversed(range(60))]
    assert forwards == backwards[::-1]
    twin = Schedule(schedule.start, schedule.end, schedule.inc, schedule.intervals)
    assert twin == schedule
    assert twin(59) == forwards[59]


@pytest.mark.parametrize(
    ("b", "T", "steps"),
    [(20, 15, 1500), (30, 15, 4000), (70, 15, 14_000), (20, 10, 2500), (12, 5, 2000)],
)
def test_loops_of_the_paper_reach_b(b: int, T: int, steps: int) -> None:
    """From T by 2 every 500 steps."""
    loops = Schedule(T, b, 2, (500,))
    assert first_step_at(loops, b) == steps
    assert loops(499) == T
    assert loops(500) == T + 2
    assert loops(steps - 1) == b - ((b - T) % 2 or 2)


@pytest.mark.parametrize(("start", "end", "inc"), [(5, 20, 1), (11, 41, 2), (26, 101, 5)])
def test_dims_and_points_of_the_paper_reach_their_end(start: int, end: int, inc: int) -> None:
    """Dims, points of linear tasks, points of trees and networks: all by step 75,000."""
    schedule = Schedule(start, end, inc, (5000,))
    assert first_step_at(schedule, end) == 75_000
    assert schedule(4999) == start
    assert schedule(5000) == start + inc
    assert schedule(74_999) == end - inc


def test_intervals_say_how_long_each_value_is_held() -> None:
    schedule = Schedule(1, 5, 1, (3, 1, 2))
    assert [schedule(step) for step in range(11)] == [1, 1, 1, 2, 3, 3, 4, 4, 5, 5, 5]


def test_a_constant_does_not_move() -> None:
    assert {Schedule.constant(7)(step) for step in (0, 1, 10**6)} == {7}


@pytest.mark.parametrize(
    ("start", "end", "inc", "intervals", "match"),
    [
        (6, 5, 1, (1,), "cannot start at 6, beyond its end 5"),
        (1, 5, 0, (1,), "inc >= 1"),
        (1, 5, -1, (1,), "inc >= 1"),
        (1, 5, 1, (), "intervals of at least one step"),
        (1, 5, 1, (0,), "intervals of at least one step"),
        (1, 5, 1, (3, 0, 2), "intervals of at least one step"),
        (1, 5, 1, (-500,), "intervals of at least one step"),
    ],
)
def test_schedules_that_cannot_move_are_refused(
    start: int, end: int, inc: int, intervals: tuple[int, ...], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        Schedule(start, end, inc, intervals)


STEPS = 20_000


def draws(law: Any, b: int, steps: int = STEPS, seed: int = 0) -> NDArray[np.int64]:
    loops = SampledLoops(law, b, (seed, 2))
    return np.array([loops(step) for step in range(steps)])


def poisson_lognormal(b: int, size: int) -> NDArray[np.float64]:
    """Probabilities of 1 .. size loops, with nothing cut: Poisson ones, mixed over τ."""
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    tau = log(b - 1) - 1 / 8 + node / 2
    more = np.arange(size)[:, None]
    factorials = np.array([[lgamma(k + 1)] for k in range(size)])
    probability: NDArray[np.float64] = np.exp(more * tau - np.exp(tau) - factorials)
    return probability @ (weight / weight.sum())


def cut(probability: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The same with all that lies beyond `most` put there."""
    return np.append(probability[: most - 1], probability[most - 1 :].sum())


def moments(probability: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and variance of a law on 1, 2, …"""
    loops = np.arange(1, len(probability) + 1)
    mean = float(probability @ loops)
    return mean, float(probability @ (loops - mean) ** 2)


@pytest.mark.parametrize("b", [1, 2, 5, 20])
def test_uniform_draws_are_uniform_from_1_to_2b_minus_1(b: int) -> None:
    drawn, most = draws("uniform", b), 2 * b - 1
    counts = np.bincount(drawn, minlength=2 * b)[1:]
    assert len(counts) == most == SampledLoops("uniform", b, (0,)).end
    assert drawn.min() == 1
    assert np.all(counts > 0)
    assert abs(drawn.mean() - b) <= 3 * sqrt((most**2 - 1) / 12 / STEPS)
    assert b == 1 or chisquare(counts).pvalue > 1e-3


def test_uniform_draws_begin_at_the_least() -> None:
    loops = SampledLoops("uniform", 8, (0, 2), least=4)
    drawn = np.array([loops(step) for step in range(STEPS)])
    counts = np.bincount(drawn, minlength=13)
    assert (drawn.min(), drawn.max(), loops.end) == (4, 12, 12)
    assert chisquare(counts[4:]).pvalue > 1e-3
    with pytest.raises(ValueError, match="cannot be drawn"):
        SampledLoops("uniform", 8, (0, 2), least=9)


@pytest.mark.parametrize("b", [2, 5, 20])
def test_the_law_has_the_published_moments_but_for_the_cut(b: int) -> None:
    """Mean b, variance r̄ + r̄² (exp σ² - 1) with r̄ = b - 1; and what is said of the cut."""
    law = poisson_lognormal(b, 40 * b + 60)
    mean, variance = moments(law)
    assert mean == pytest.approx(b)
    assert variance == pytest.approx((b - 1) + (b - 1) ** 2 * (exp(1 / 4) - 1))
    cut_mean, cut_variance = moments(cut(law, SampledLoops("poisson_lognormal", b, ()).end))
    assert 0.999 * mean < cut_mean < mean
    assert 0.975 * variance < cut_variance < variance


@pytest.mark.parametrize("b", [2, 5, 20])
def test_poisson_lognormal_draws_follow_the_law(b: int) -> None:
    drawn, law = draws("poisson_lognormal", b), cut(poisson_lognormal(b, 40 * b + 60), 4 * b)
    mean, variance = moments(law)
    assert abs(drawn.mean() - mean) <= 3 * sqrt(variance / STEPS)
    fourth = float(law @ (np.arange(1, 4 * b + 1) - mean) ** 4)
    assert abs(drawn.var() - variance) <= 3 * sqrt((fourth - variance**2) / STEPS)
    bins = (20 * (np.cumsum(law) - law)).astype(int)  # each beginning in another twentieth
    seen = np.bincount(bins, np.bincount(drawn, minlength=4 * b + 1)[1:])
    expected = np.bincount(bins, STEPS * law)
    there = expected > 0
    assert chisquare(seen[there], expected[there]).pvalue > 1e-3


def test_no_draw_is_beyond_the_cut() -> None:
    """Beyond 4 b lie three draws in a thousand, which are there made 4 b."""
    drawn = draws("poisson_lognormal", 20)
    assert drawn.max() == 80 == SampledLoops("poisson_lognormal", 20, (0,)).end
    assert np.count_nonzero(drawn == 80) > 5


def test_around_one_there_is_one() -> None:
    assert set(draws("poisson_lognormal", 1, 200)) == {1}
    assert SampledLoops("poisson_lognormal", 1, (0,)).end == 1


@pytest.mark.parametrize("law", ["uniform", "poisson_lognormal"])
def test_a_draw_is_a_function_of_the_seed_and_the_step(law: Any) -> None:
    """In any order; and steps, seeds and streams have nothing in common."""
    forwards = draws(law, 20, 400)
    loops = SampledLoops(law, 20, (0, 2))
    assert [loops(step) for step in reversed(range(400))] == forwards[::-1].tolist()
    other_stream = [SampledLoops(law, 20, (0, 3))(step) for step in range(400)]
    for other in (draws(law, 20, 400, seed=1), np.array(other_stream), np.roll(forwards, 1)):
        assert abs(np.corrcoef(forwards, other)[0, 1]) < 0.2


@pytest.mark.parametrize(("law", "b"), [("uniform", 0), ("poisson_lognormal", -1), ("unifrom", 3)])
def test_what_cannot_be_drawn_is_refused(law: Any, b: int) -> None:
    with pytest.raises(ValueError, match="loops cannot be drawn by"):
        SampledLoops(law, b, (0,))
