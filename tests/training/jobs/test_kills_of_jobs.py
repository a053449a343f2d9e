"""SIGKILL to the parent, a worker or the whole group of a leave-one-out with processes of its own:
nobody is left, and the same command ends as one that was left in peace. (Grids and experiments:
tests/experiments/grids/test_kills.py.)"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.openml_eval.leave_out import words, write_tables
from tests.training.stopping.killed import Killable, result, written

_KILLS = 34  # of each command
_WHO = ("parent", "worker", "group")
_OPENML = ("training.steps=150", "training.checkpoint_every=50", "model=looped", "jobs=2")


@dataclass
class Subject:
    """A command: its words, where its result stands, how it ends; and what was done to it."""

    words: list[str]
    pattern: str
    code: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    gone: list[float] = field(default_factory=list)  # seconds until nobody was left

    def start(self, folder: Path, number: int, **variables: str) -> Killable:
        says = folder.with_name(f"{folder.name}-{number}.txt")
        return Killable([*self.words, f"folder={folder}"], says, **variables)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    tables = write_tables(tmp_path / "tables")
    given = words(tables, tmp_path, *_OPENML)
    given = [each for each in given if not each.startswith(("folder=", "training.steps=6"))]
    return Subject(["openml_eval", *given], "openml-????????/openml.json")


def undisturbed(subject: Subject, folder: Path, started: list[Killable]) -> tuple[Any, int]:
    """What the command finds when it is left in peace, and how many files it writes."""
    started.append(command := subject.start(folder, 0))
    assert command.code() == subject.code, command.printed
    return result(folder, subject.pattern), len(written(folder))


def kill_at_some_point(
    command: Killable, folder: Path, most: int, who: str, chance: random.Random
) -> bool:
    """Wait until it has written some files, or for a moment, and kill; whether it was killed."""
    before, some = written(folder), chance.randrange(max(1, most // 2))
    while command.alive() and len(written(folder) - before) < some:
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 0.3 if some else 3))
    while command.alive():
        if command.kill(who, chance):
            return True
    return False


def disturbed(
    subject: Subject, folder: Path, most: int, chance: random.Random, started: list[Killable]
) -> Killable:
    """The command, started and killed until it ends; half of the times it is started anew while
    those that it left behind still end."""
    started.append(command := subject.start(folder, len(started)))
    who = chance.choice(_WHO)
    while kill_at_some_point(command, folder, most, who, chance):
        subject.kills[who] += 1
        if who == "worker":  # what is lost is tried once more, not twice
            who = chance.choice(("parent", "group"))
            continue
        killed, who = command, chance.choice(_WHO)
        at_once = chance.random() < 0.5
        if not at_once:
            subject.gone.append(killed.seconds_to_be_gone())
        started.append(command := subject.start(folder, len(started)))
        if at_once:
            subject.gone.append(killed.seconds_to_be_gone())
        assert "Traceback" not in killed.printed, killed.printed
    return command


@pytest.mark.slow
def test_killed_a_hundred_times(subject: Subject, tmp_path: Path, started: list[Killable]) -> None:
    chance = random.Random(11)
    expected, most = undisturbed(subject, tmp_path / "whole", started)
    ended = 0
    while subject.kills.total() < _KILLS:
        ended += 1
        folder = tmp_path / f"killed-{ended}"
        command = disturbed(subject, folder, most, chance, started)
        assert command.code() == subject.code, command.printed
        assert "Traceback" not in command.printed
        assert "failed:" not in command.printed
        assert result(folder, subject.pattern) == expected
        longest = max(subject.gone, default=0)
        print(f"{subject.words[0]}: {dict(subject.kills)}, {ended} ended, {longest:.1f} s")
    assert min(subject.kills[who] for who in _WHO) > 0
