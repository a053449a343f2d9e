"""Stages: how many loops, which of them count, and how far back gradients reach."""

from collections.abc import Iterable
from dataclasses import replace
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


def counts(curriculum: Curriculum, steps: Iterable[int]) -> list[tuple[int, int, int]]:
    """Loops, window and reach of gradients at each step."""
    stages = map(curriculum, steps)
    return [(stage.loops, stage.window, stage.grad_loops) for stage in stages]


@pytest.mark.parametrize(
    ("step", "stage"),
    [
        (0, Stage(5, 11, 15, 15, 15, 15)),
        (500, Stage(5, 11, 17, 15, 15, 17)),
        (1500, Stage(5, 11, 20, 15, 15, 20)),
        (74_999, Stage(19, 39, 20, 15, 15, 20)),
        (499_999, Stage(20, 41, 20, 15, 15, 20)),
    ],
)
def test_stages_of_the_paper(step: int, stage: Stage) -> None:
    assert paper(b=20, T=15)(step) == stage


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


def test_gradients_that_do_not_reach_the_window_are_refused() -> None:
    """Nor those of a draw that could count more: around b = 4 up to 7 loops are drawn."""
    for b, T, short in ((20, 15, 14), (4, 15, 3), (4, 4, 0)):
        with pytest.raises(ValueError, match="do not reach"):
            paper(b, T, short)
    loops = SampledLoops("uniform", 4, (0,))
    assert Curriculum(DIMS, POINTS, loops, 6, 6)(0).dims == 5
    with pytest.raises(ValueError, match="do not reach 6"):
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
    drawn = Curriculum(DIMS, POINTS, SampledLoops("uniform", 9, (0,)), 5)
    stages = [drawn(step) for step in range(50)]
    assert {stage.scale_loops for stage in stages} == {9}
    assert len({stage.loops for stage in stages}) > 9
