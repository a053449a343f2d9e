"""Variants take turns, each in its process; one that fails, crashes or hangs stops no other."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import torch

from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.step import compare
from looplab.benchmarks.turns import Contender, Turns, measure, warm_up
from looplab.benchmarks.variants import Step, Variant
from looplab.conf.schema import Config

CPU = torch.device("cpu")


def _raise() -> None:
    raise RuntimeError("no such\nkernel")


ENDS: dict[str, Callable[[], object]] = {
    "raises": _raise,
    "exits": lambda: os._exit(3),
    "hangs": lambda: time.sleep(60),
}


@dataclass(frozen=True)
class Fake(Variant):
    """A variant whose steps, long enough for a measurement each, add a line with its backend to a
    file, until one of them, counted from 0, ends as `precision` says."""

    file: str = ""
    last: int = 1000

    def build(self, config: Config, device: torch.device) -> Step:
        steps = count()

        def step() -> None:
            if next(steps) == self.last:
                ENDS[self.precision]()
            time.sleep(0.2)
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(self.backend)

        return step


def run(variants: list[Variant], limit: float | None = None) -> tuple[Turns, list[int]]:
    """What three turns measure, and the turns at each time when it was saved."""
    settings = StepSettings(pairs=3, limit=limit)
    turns, saved = Turns(at_full_size(named_config("small")), CPU, settings), list[int]()
    turns.take(variants, lambda: saved.append(turns.turns))
    return turns, saved


def test_those_that_fail_leave_the_others_their_turns(tmp_path: Path) -> None:
    file = str(tmp_path / "steps")
    measured, saved = run(
        [
            Fake("ours", "b", "exits", file=file, last=0),
            Fake("reference", "a", "fp32", file=file),
            Fake("ours", "c", "raises", file=file, last=2),
        ]
    )
    assert measured.failures == {
        "ours b exits": "its process ended with code 3",
        "ours c raises": "RuntimeError: no such kernel",
    }
    (whole,) = measured.whole()
    assert len(whole.times) == 3
    assert saved == [0, 1, 2, 3]
    assert Path(file).read_text(encoding="utf-8") == "acacaa"  # one step each for warming up


def test_what_was_stopped_keeps_its_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the third of seven."""
    path, ask, questions = tmp_path / "step.json", Contender.answer, list[Contender]()

    def stops(self: Contender, question: str = "") -> object:
        questions.append(self)
        if len(questions) == 8:  # the first two for being ready
            raise KeyboardInterrupt
        return ask(self, question)

    monkeypatch.setattr(Contender, "answer", stops)
    variants: list[Variant] = [
        Fake("reference", name, "fp32", file=str(tmp_path / "steps")) for name in "ab"
    ]
    settings = StepSettings(configs=("small",), device="cpu", json=str(path))
    with pytest.raises(KeyboardInterrupt):
        compare(variants, settings, CPU)
    kept = json.loads(path.read_text(encoding="utf-8"))["settings"]["small"]
    assert kept["turns"] == 2
    assert [len(row["seconds"]["wall"]) for row in kept["variants"]] == [2, 2]
    assert not any(each.process.is_alive() for each in questions)


def test_a_short_step_is_made_many_times() -> None:
    made = []
    repeats = warm_up(lambda: made.append(1), 3, CPU)
    assert repeats > 100
    made.clear()
    times = measure(lambda: made.append(1), repeats, CPU)
    assert len(made) == repeats
    assert times["wall"] > 0
    assert times["cpu"] == pytest.approx(times["user"] + times["system"])
    assert warm_up(lambda: time.sleep(0.2), 1, CPU) == 1
