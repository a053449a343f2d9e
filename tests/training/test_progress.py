"""A bar in a notebook, which nbconvert keeps: one output, replaced; and the share of the work that
is done when loops grow."""

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from looplab.curricula import Curriculum, Schedule
from looplab.training.progress import Progress, Work


def test_a_notebooks_bar_is_one_output_and_leaves_nothing_on_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = list[str]()
    begun = list[str]()

    def display(content: dict[str, str], **how: Any) -> SimpleNamespace:
        assert how == {"raw": True, "display_id": True}
        begun.append(content["text/plain"])
        return SimpleNamespace(update=lambda new, raw: shown.append(new["text/plain"]))

    stderr = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with Progress(total=3, what="probes", unit="step") as progress:
        progress.delay = 0
        for _ in range(3):
            progress.mininterval = 0
            progress.update()
    assert len(begun) == 1
    assert "3/3" in shown[-2]
    assert shown[-1] == ""  # it is not left
    assert stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("loops", "step", "share"),
    [
        (Schedule.constant(12), 0, 0),
        (Schedule.constant(12), 250, pytest.approx(0.25)),
        (Schedule.constant(12), 1000, pytest.approx(1)),
        # Half of the steps at 4 loops (4 + 2 · 4 passes), half at 20 (20 + 2 · 4).
        (Schedule(4, 20, 16, (500,)), 500, pytest.approx(12 / (12 + 28), abs=0.005)),
        (Schedule(4, 20, 16, (500,)), 1000, 1),
    ],
)
def test_the_share_of_the_work_before_a_step(loops: Schedule, step: int, share: Any) -> None:
    curriculum = Curriculum(Schedule.constant(5), Schedule.constant(11), loops, T=4)
    assert Work(curriculum, 1000)(step) == share
