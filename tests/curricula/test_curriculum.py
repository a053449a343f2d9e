"""Stages: how many loops, which of them count, and how far back gradients reach."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from curricula import Curriculum, Schedule, Stage


def paper(b: int, T: int, truncated: bool = True) -> Curriculum:
    """Sparse linear functions as in the paper; a tied model makes all its loops at once."""
    loops = Schedule(min(T, b), b, 2, (500,)) if truncated else Schedule.constant(b)
    dims, points = Schedule(5, 20, 1, (5000,)), Schedule(11, 41, 2, (5000,))
    return Curriculum(dims, points, loops, T, truncated)


@pytest.mark.parametrize(
    ("step", "stage"),
    [
        (0, Stage(5, 11, 15, 15, 15)),
        (499, Stage(5, 11, 15, 15, 15)),
        (500, Stage(5, 11, 17, 15, 15)),
        (1499, Stage(5, 11, 19, 15, 15)),
        (1500, Stage(5, 11, 20, 15, 15)),
        (5000, Stage(6, 13, 20, 15, 15)),
        (74_999, Stage(19, 39, 20, 15, 15)),
        (75_000, Stage(20, 41, 20, 15, 15)),
        (499_999, Stage(20, 41, 20, 15, 15)),
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


@pytest.mark.parametrize("T", [1, 5, 100])
def test_a_tied_model_learns_from_its_last_loop_through_all(T: int) -> None:
    for step in (0, 499, 10**6):
        stage = paper(b=12, T=T, truncated=False)(step)
        assert (stage.loops, stage.window, stage.grad_loops) == (12, 1, 12)


def test_gradients_of_a_growing_tied_model_follow_its_loops() -> None:
    constant = Schedule.constant(4)
    curriculum = Curriculum(constant, constant, Schedule(2, 6, 2, (1,)), T=3, truncated=False)
    stages = [curriculum(step) for step in range(4)]
    assert [(stage.loops, stage.window) for stage in stages] == [(2, 1), (4, 1), (6, 1), (6, 1)]
    assert [stage.grad_loops for stage in stages] == [2, 4, 6, 6]


@pytest.mark.parametrize("truncated", [True, False])
def test_counts_always_fit_together(truncated: bool) -> None:
    """1 <= window <= grad_loops <= loops: what every model asks for."""
    for b, T in ((20, 15), (12, 15), (30, 5), (1, 1)):
        for step in range(0, 15_000, 500):
            stage = paper(b, T, truncated)(step)
            assert 1 <= stage.window <= stage.grad_loops <= stage.loops <= b


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
