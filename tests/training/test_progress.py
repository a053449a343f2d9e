"""How far a long computation is: what is said of it where there is no terminal to draw a bar on,
and the share of the work that is done."""

from __future__ import annotations

import pytest

from looplab.curricula import Curriculum, Schedule
from looplab.training.progress import Work


def _curriculum(loops: Schedule) -> Curriculum:
    return Curriculum(Schedule.constant(5), Schedule.constant(11), loops, T=4)


def test_steps_that_cost_the_same() -> None:
    work = Work(_curriculum(Schedule.constant(12)), 1000)
    assert [work(step) for step in (0, 250, 1000)] == pytest.approx([0, 0.25, 1])


def test_loops_that_grow() -> None:
    """Half of the steps at 4 loops (4 + 2 · 4 passes), half at 20 (20 + 2 · 4)."""
    work = Work(_curriculum(Schedule(4, 20, 16, (500,))), 1000)
    assert work(500) == pytest.approx(12 / (12 + 28), abs=0.005)
    assert work(1000) == 1
