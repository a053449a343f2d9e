"""Stages: how many loops, which of them count, and how far back gradients reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import FrozenInstanceError, replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looplab.curricula import Curriculum, SampledLoops, Schedule, Stage

Rule = int | Literal["window", "half", "all"]
DIMS, POINTS = Schedule(5, 20, 1, (5000,)), Schedule(11, 41, 2, (5000,))


def paper(b: int, T: int, grad_loops: Rule = "window") -> Curriculum:
    """Sparse linear functions as in the paper."""
    return Curriculum(DIMS, POINTS, Schedule(min(T, b), b, 2, (500,)), T, grad_loops)


def all_at_once(b: int) -> Curriculum:
    """A tied or standard model: all its loops from the first step, of which the last counts."""
    return Curriculum(DIMS, POINTS, Schedule.constant(b), 1, "all")


def counts(curriculum: Curriculum, steps: Iterable[int]) -> list[tuple[int, int, int]]:
    """Loops, window and reach of gradients at each step."""
    stages = map(curriculum, steps)
    return [(stage.loops, stage.window, stage.grad_loops) for stage in stages]


@pytest.mark.parametrize(
    ("step", "stage"),
    [
        (0, Stage(5, 11, 15, 15, 15, 15)),
        (499, Stage(5, 11, 15, 15, 15, 15)),
        (500, Stage(5, 11, 17, 15, 15, 17)),
        (1499, Stage(5, 11, 19, 15, 15, 19)),
        (1500, Stage(5, 11, 20, 15, 15, 20)),
        (5000, Stage(6, 13, 20, 15, 15, 20)),
        (74_999, Stage(19, 39, 20, 15, 15, 20)),
        (75_000, Stage(20, 41, 20, 15, 15, 20)),
        (499_999, Stage(20, 41, 20, 15, 15, 20)),
    ],
)
def test_stages_of_the_paper(step: int, stage: Stage) -> None:
    assert paper(b=20, T=15)(step) == stage


def test_the_window_of_all_loops_moves_to_the_last_ones() -> None:
    """Loops [1, T] at first, [b - T, b] in the end: always T of them, never more than there are."""
    curriculum = paper(b=70, T=15)
    for step in range(0, 20_000, 250):
        stage = curriculum(step)
        assert stage.window == stage.grad_loops == 15
        assert stage.loops == min(70, 15 + 2 * (step // 500))


@pytest.mark.parametrize(("b", "T"), [(12, 15), (1, 15), (5, 5), (1, 1)])
def test_fewer_loops_than_the_window_all_count(b: int, T: int) -> None:
    """b < T is legal, as in the paper's grid."""
    for step in (0, 500, 10**6):
        stage = paper(b, T)(step)
        assert (stage.loops, stage.window, stage.grad_loops) == (b, b, b)


def test_a_window_wider_than_the_first_loops_grows_with_them() -> None:
    """Where loops start below T the window is what there is, until there is enough."""
    constant = Schedule.constant(4)
    curriculum = Curriculum(constant, constant, Schedule(1, 10, 3, (2,)), T=5)
    stages = [curriculum(step) for step in range(7)]
    assert [stage.loops for stage in stages] == [1, 1, 4, 4, 7, 7, 10]
    assert [stage.window for stage in stages] == [1, 1, 4, 4, 5, 5, 5]
    assert [stage.grad_loops for stage in stages] == [1, 1, 4, 4, 5, 5, 5]


def test_a_tied_model_learns_from_its_last_loop_through_all() -> None:
    assert counts(all_at_once(12), (0, 499, 10**6)) == [(12, 1, 12)] * 3


@pytest.mark.parametrize(
    ("rule", "reach"),
    [
        ("window", [2, 2, 2, 2]),
        ("half", [2, 2, 3, 4]),  # of 2, 4, 6, 7
        ("all", [2, 4, 6, 7]),
        (2, [2, 2, 2, 2]),
        (5, [2, 4, 5, 5]),
        (99, [2, 4, 6, 7]),
    ],
)
def test_gradients_reach_as_far_as_told(rule: Rule, reach: list[int]) -> None:
    """Whatever the window, which stays."""
    stages = counts(paper(7, 2, rule), (0, 500, 1000, 1500))
    assert stages == list(zip((2, 4, 6, 7), (2, 2, 2, 2), reach, strict=True))


def test_half_of_the_loops_is_never_less_than_the_window() -> None:
    """At the first stages of a schedule all loops count, and half of b is not reached yet."""
    stages = counts(paper(9, 5, "half"), (0, 500, 1000))
    assert stages == [(5, 5, 5), (7, 5, 5), (9, 5, 5)]


@pytest.mark.parametrize(("b", "T", "short"), [(20, 15, 14), (4, 15, 3), (4, 4, 0)])
def test_gradients_that_do_not_reach_the_window_are_refused(b: int, T: int, short: int) -> None:
    with pytest.raises(ValueError, match=f"through {short} loops do not reach"):
        paper(b, T, short)


def test_a_draw_that_could_count_more_than_is_reached_is_refused() -> None:
    """Around b = 4 up to 7 loops are drawn, and 6 of them count."""
    loops = SampledLoops("uniform", 4, (0,))
    assert Curriculum(DIMS, POINTS, loops, 6, 6)(0).dims == 5
    with pytest.raises(ValueError, match="through 5 loops do not reach 6"):
        Curriculum(DIMS, POINTS, loops, 6, 5)


@st.composite
def curricula(draw: st.DrawFn) -> Curriculum:
    """Any that can be made: loops that grow or are drawn, any window and rule."""
    b, T = draw(st.integers(1, 40)), draw(st.integers(1, 50))
    start, inc = draw(st.integers(1, b)), draw(st.integers(1, 5))
    options: list[Schedule | SampledLoops] = [
        Schedule(start, b, inc, (2, 1)),
        SampledLoops("uniform", b, (3,)),
        SampledLoops("poisson_lognormal", b, (3,)),
    ]
    loops = draw(st.sampled_from(options))
    least = min(T, loops.end)
    whole = st.integers(least, least + 20)
    rule: Rule = draw(st.one_of(st.sampled_from(["window", "half", "all"]), whole))
    return Curriculum(DIMS, POINTS, loops, T, rule)


@given(curricula(), st.integers(0, 10**6))
def test_counts_always_fit_together(curriculum: Curriculum, step: int) -> None:
    """What every model asks for, and the same whoever asks."""
    stage = curriculum(step)
    assert 1 <= stage.window <= stage.grad_loops <= stage.loops <= curriculum.loops.end
    assert stage.window == min(curriculum.T, stage.loops)
    curriculum(step + 1)
    assert curriculum(step) == stage == replace(curriculum)(step)


def test_the_scale_follows_a_schedule_but_not_draws() -> None:
    """One map must serve all depths that are drawn."""
    assert [paper(9, 5)(step).scale_loops for step in (0, 500, 10**6)] == [5, 7, 9]
    assert all_at_once(12)(0).scale_loops == 12
    drawn = Curriculum(DIMS, POINTS, SampledLoops("uniform", 9, (0,)), 5)
    stages = [drawn(step) for step in range(50)]
    assert {stage.scale_loops for stage in stages} == {9}
    assert len({stage.loops for stage in stages}) > 9


def test_the_order_of_questions_does_not_matter() -> None:
    """A resumed run asks from the middle on and must be answered the same."""
    whole = paper(30, 15)
    forwards = [whole(step) for step in range(0, 90_000, 500)]
    assert [paper(30, 15)(step) for step in range(45_000, 90_000, 500)] == forwards[90:]
    assert [whole(step) for step in reversed(range(0, 90_000, 500))] == forwards[::-1]


def test_stages_are_frozen_and_can_be_keys() -> None:
    curriculum = paper(20, 15)
    assert len({curriculum(step) for step in range(5000)}) == 4
    with pytest.raises(FrozenInstanceError):
        curriculum(0).loops = 3  # type: ignore[misc]
