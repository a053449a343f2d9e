"""Schedules against a counter that is moved step by step and against the papers' tables; drawn
loops against their laws, which are computed here by quadrature."""

from math import lgamma, log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any that can be made, of at most thirty values."""
    start, more, inc = draw(st.integers(-3, 5)), draw(st.integers(0, 30)), draw(st.integers(1, 5))
    intervals = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    return Schedule(start, start + more, inc, tuple(intervals))


@given(schedules())
def test_values_are_those_of_a_counter_which_ends(schedule: Schedule) -> None:
    """In any order of questions."""
    values = simulate(schedule, 120)
    assert [schedule(step) for step in reversed(range(120))] == values[::-1]
    assert schedule(10**12) == schedule.end


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        *((Schedule(15, b, 2, (500,)), steps) for b, steps in ((20, 1500), (70, 14_000))),
        *((Schedule(a, b, i, (5000,)), 75_000) for a, b, i in ((5, 20, 1), (11, 41, 2))),
        (Schedule.constant(7), 0),
    ],
)
def test_loops_dims_and_points_of_the_papers_reach_their_end(
    schedule: Schedule, steps: int
) -> None:
    assert schedule(steps) == schedule.end
    assert steps == 0 or schedule(steps - 1) < schedule.end


@pytest.mark.parametrize(
    ("start", "inc", "intervals"),
    [(6, 1, (1,)), (1, 0, (1,)), (1, -1, (1,)), (1, 1, ()), (1, 1, (0,)), (1, 1, (3, 0, 2))],
)
def test_schedules_that_cannot_move_are_refused(
    start: int, inc: int, intervals: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="a schedule"):
        Schedule(start, 5, inc, intervals)


@pytest.mark.parametrize(
    ("law", "b", "least"),
    [("uniform", 0, 1), ("uniform", 8, 9), ("poisson_lognormal", -1, 1), ("unifrom", 3, 1)],
)
def test_what_cannot_be_drawn_is_refused(law: Any, b: int, least: int) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        SampledLoops(law, b, (0,), least)


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


@pytest.mark.parametrize(("b", "least"), [(1, 1), (5, 1), (8, 4)])
def test_uniform_draws_are_uniform_from_the_least_to_2b_minus_it(b: int, least: int) -> None:
    loops = SampledLoops("uniform", b, (0, 2), least)
    counts = np.bincount([loops(step) for step in range(STEPS)])
    assert len(counts) == 2 * b - least + 1 == loops.end + 1
    assert not counts[:least].any()
    assert b == 1 or chisquare(counts[least:]).pvalue > 1e-3


@pytest.mark.parametrize("b", [2, 20])
def test_poisson_lognormal_draws_follow_the_law(b: int) -> None:
    """Whose mean is b but for the cut: beyond 4 b lie three draws in a thousand, which are there
    made 4 b."""
    whole, loops = poisson_lognormal(b, 40 * b + 60), np.arange(1, 4 * b + 1)
    assert whole @ np.arange(1, len(whole) + 1) == pytest.approx(b)
    drawn, law = draws("poisson_lognormal", b), cut(whole, 4 * b)
    mean = float(law @ loops)
    variance = float(law @ (loops - mean) ** 2)
    assert abs(drawn.mean() - mean) <= 3 * sqrt(variance / STEPS)
    fourth = float(law @ (loops - mean) ** 4)
    assert abs(drawn.var() - variance) <= 3 * sqrt((fourth - variance**2) / STEPS)
    bins = (20 * (np.cumsum(law) - law)).astype(int)  # each beginning in another twentieth
    seen = np.bincount(bins, np.bincount(drawn, minlength=4 * b + 1)[1:])
    expected = np.bincount(bins, STEPS * law)
    assert drawn.max() == 4 * b == SampledLoops("poisson_lognormal", b, (0,)).end
    assert set(draws("poisson_lognormal", 1, 200)) == {1}
    there = expected > 0
    assert chisquare(seen[there], expected[there]).pvalue > 1e-3


@pytest.mark.parametrize("law", ["uniform", "poisson_lognormal"])
def test_a_draw_is_a_function_of_the_seed_and_the_step(law: Any) -> None:
    """In any order; and steps, seeds and streams have nothing in common."""
    forwards = draws(law, 20, 400)
    loops = SampledLoops(law, 20, (0, 2))
    assert [loops(step) for step in reversed(range(400))] == forwards[::-1].tolist()
    other_stream = [SampledLoops(law, 20, (0, 3))(step) for step in range(400)]
    for other in (draws(law, 20, 400, seed=1), np.array(other_stream), np.roll(forwards, 1)):
        assert abs(np.corrcoef(forwards, other)[0, 1]) < 0.2
