"""How far a long computation is: what is said of it where there is no terminal to draw a bar on,
and the share of the work that is done."""

from __future__ import annotations

import time

import pytest

from looplab.curricula import Curriculum, Schedule
from looplab.training.progress import Progress, Work


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, as the computation sees it, to be set in place."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_half_minute_says_how_much_is_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(1000, "probes", "step") as steps:
        for _ in range(1000):
            clock[0] += 0.125
            steps.update()
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "probes: step 240 of 1,000, 01:35 left",
        "probes: step 480 of 1,000, 01:05 left",
        "probes: step 720 of 1,000, 00:35 left",
        "probes: step 960 of 1,000, 00:05 left",
    ]


def test_what_was_done_before_does_not_count_as_speed(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(1000, "probes", "step", done=900) as steps:
        clock[0] += 60
        steps.update(50)
    assert capsys.readouterr().err == "probes: step 950 of 1,000, 01:00 left\n"


def test_what_is_over_soon_says_nothing(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(10, "errors", "prompt") as prompts:
        clock[0] += 60
        prompts.update(10)
    assert capsys.readouterr() == ("", "")


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


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_few_steps(steps: int) -> None:
    work = Work(_curriculum(Schedule.constant(1)), steps)
    assert work(steps) == pytest.approx(1 if steps else 0)
