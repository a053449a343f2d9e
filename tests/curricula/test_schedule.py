"""Schedules against a counter that is moved step by step, and against the papers' tables."""

from __future__ import annotations

from itertools import pairwise

import pytest

from reloop.curricula import Schedule


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
