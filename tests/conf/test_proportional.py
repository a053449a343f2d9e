"""A curriculum in proportion to the steps: finished where the full run's is."""

from __future__ import annotations

from pathlib import Path

import pytest

from reloop.conf.compose import commands
from reloop.conf.groups import choices
from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config
from reloop.curricula import Curriculum
from reloop.training.assemble import build_curriculum, build_task
from reloop.training.run_folder.run import run_folder

ALL = "curriculum.proportional=true"


def config(*words: str) -> Config:
    """What the recipe whose curriculum has three intervals composes."""
    (command,) = commands(["recipe=paper", *(word for word in words if word)])
    return command.config


def curriculum(config: Config) -> Curriculum:
    return build_curriculum(config, build_task(config))


@pytest.mark.parametrize("steps", [400, 1000, 70_000])
def test_a_shorter_or_longer_run_stands_where_the_full_one_does(steps: int) -> None:
    full, ours = config("task=linear"), config("task=linear", f"training.steps={steps}", ALL)
    assert (ours.training.steps, full.training.steps) == (steps, 7000)
    theirs, mine = curriculum(full), curriculum(ours)
    for part in range(0, 101, 5):
        then, now = theirs(part * 7000 // 100), mine(part * steps // 100)
        # Rounded down, an interval ends a step early at most, and a grid of 100 parts may see it.
        assert now.dims - then.dims in (0, 1)
        assert now.loops - then.loops in (0, 2)
    end = mine(steps - 1)
    assert (end.dims, end.loops) == (5, 12)


def test_without_it_the_same_run_ends_early() -> None:
    end = curriculum(config("task=linear", "training.steps=400"))(399)
    assert (end.dims, end.loops) == (2, 4)


@pytest.mark.parametrize("task", choices("task"))
@pytest.mark.parametrize("scale", choices("scale"))
def test_every_task_ends_where_it_should(task: str, scale: str) -> None:
    ours = config(f"task={task}", f"scale={scale}", "training.steps=500", ALL)
    end = curriculum(ours)(499)
    assert (end.dims, end.points) == (ours.task.dims, ours.task.points)
    assert end.loops == ours.loops.b


def test_as_many_steps_as_configured_are_the_same_run(tmp_path: Path) -> None:
    folder = f"folder={tmp_path}"
    for words in ("", "training.steps=7000"):
        full, ours = config("task=linear", folder), config("task=linear", folder, words, ALL)
        assert ours == full
        assert run_folder(ours).path == run_folder(full).path


def test_what_does_not_grow_keeps_its_intervals() -> None:
    words = ("task=linear", "training.steps=70")
    plain, ours = (
        config(*words, "loops.sampling=uniform"),
        config(*words, "loops.sampling=uniform", ALL),
    )
    assert ours.curriculum.loops == plain.curriculum.loops
    assert ours.curriculum.points == plain.curriculum.points
    assert ours.curriculum.dims.intervals == (13, 6, 5)
    assert ours.training.warmup == plain.training.warmup


def test_an_interval_is_at_least_one_step() -> None:
    assert config("task=linear", "training.steps=0", ALL).curriculum.dims.intervals == (1, 1, 1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("curriculum.dims.intervals=[3]", "cannot be true beside curriculum.dims.intervals="),
        ("training.steps=many", "training.steps must be a whole number"),
    ],
)
def test_mistakes(words: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        config("task=linear", words, ALL)
    with pytest.raises(ConfigError, match=r"curriculum\.proportional must be true or false"):
        config("task=linear", "curriculum.proportional=yes_please")
