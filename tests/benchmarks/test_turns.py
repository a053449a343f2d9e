"""Variants take turns, each in its process; one that fails, crashes or hangs stops no other."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.step import compare
from looplab.benchmarks.turns import Contender, Turns, measure, read_clocks, warm_up
from looplab.benchmarks.variants import Step, Variant
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config

CPU = torch.device("cpu")


def _raise() -> None:
    raise RuntimeError("no such\nkernel")


ENDS: dict[str, Callable[[], object]] = {
    "raises": _raise,
    "aborts": lambda: os.kill(os.getpid(), signal.SIGABRT),
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


@pytest.mark.slow
def test_turns_are_in_order_and_each_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "steps"
    measured, saved = run([Fake("reference", name, "fp32", file=str(file)) for name in "abc"])
    assert file.read_text(encoding="utf-8") == "abc" * 4  # one step of each for warming up
    assert saved == [0, 1, 2, 3]
    assert [len(row.times) for row in measured.whole()] == [3, 3, 3]
    assert not measured.failures


@pytest.mark.parametrize(
    ("ends", "message", "last"),
    [
        ("raises", "RuntimeError: no such kernel", 0),
        ("raises", "RuntimeError: no such kernel", 2),
        ("aborts", "its process was ended by SIGABRT", 2),
        ("exits", "its process ended with code 3", 0),
    ],
)
def test_one_that_fails_leaves_the_others_their_turns(
    ends: str, message: str, last: int, tmp_path: Path
) -> None:
    file = str(tmp_path / "steps")
    variants = [
        Fake("reference", "a", "fp32", file=file),
        Fake("ours", "b", ends, file=file, last=last),
        Fake("reference", "c", "fp32", file=file),
    ]
    measured, _ = run([variants[0], variants[1], variants[2]])
    assert measured.failures == {variants[1].name: message}
    first, other = measured.whole()
    assert len(first.times) == len(other.times) == 3


@pytest.mark.slow
def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    file, start = str(tmp_path / "steps"), time.monotonic()
    variants = [Fake("reference", "a", "fp32", file=file), Fake("ours", "b", "hangs", last=0)]
    measured, saved = run([*variants], limit=10.0)
    assert measured.failures == {variants[1].name: "gave no answer within 10 s"}
    assert saved == [0, 1, 2, 3]
    assert time.monotonic() - start < 30  # far from the sleep's end


def test_what_was_stopped_keeps_its_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    printed = capsys.readouterr().out
    assert "reference a fp32" in printed  # the table of what there is
    assert "reference b fp32" in printed
    assert not any(each.process.is_alive() for each in questions)


def test_a_failure_is_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = tmp_path / "step.json", str(tmp_path / "steps")
    variants: list[Variant] = [
        Fake("reference", "a", "fp32", file=file),
        Fake("ours", "b", "exits", file=file, last=0),
    ]
    settings = StepSettings(configs=("small",), device="cpu", json=str(path), pairs=2)
    with pytest.raises(RunError, match="1 measurements failed"):
        compare(variants, settings, CPU)
    kept = json.loads(path.read_text(encoding="utf-8"))["settings"]["small"]
    assert kept["failures"] == {"ours b exits": "its process ended with code 3"}
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "ours b exits failed: its process ended with code 3"


def test_clocks_of_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nvidia-smi tells them, if it is there."""
    card = SimpleNamespace(uuid="0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_clocks(torch.device("cuda")) == ""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 1980 MHz, [N/A], 41, 70.1 W\n", encoding="utf-8")
    program.chmod(0o755)
    assert read_clocks(torch.device("cuda")) == "1980 MHz, [N/A], 41, 70.1 W"


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
