"""A training that ends before its curriculum does: said before it as after it."""

from pathlib import Path

import pytest

from looplab import main as run
from looplab.conf.schema import Config
from looplab.evaluation.remarks import remarks
from looplab.training import train
from looplab.training.assemble import build_task
from looplab.training.curriculum_end import shortened
from tests.conftest import tiny_config

_WORDS = ("task=linear", "loops.b=20")


def _line(*words: str) -> str:
    config = Config.of(*_WORDS, *words)
    return "".join(shortened([(config, build_task(config))]))


def test_a_short_run_is_told_the_steps_that_are_enough() -> None:
    """12 loops at first, 2 more after 600 steps and after each 200 of the next: 20 after 1,200."""
    remedy = "curriculum.proportional=true if the run was shortened, else training.steps=1201"
    assert _line("training.steps=800") == f"loops 14 of 20 at the end; {remedy}"
    assert _line("training.steps=1200") == f"loops 18 of 20 at the end; {remedy}"
    for enough in ("1201", "800 curriculum.proportional=true", "0"):
        assert _line(*f"training.steps={enough}".split()) == ""


def test_the_first_lines_of_a_training_say_what_its_remarks_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny_config(tmp_path)
    trained = train(config)
    (said,) = shortened([(config, build_task(config))])
    assert capsys.readouterr().out.splitlines()[1] == f"  {said}"
    left, _, _ = said.partition(" at the end; ")
    assert remarks(trained)[0] == f"curriculum unfinished: {left}"


def test_plans_of_a_run_and_of_a_grid_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*_WORDS, "training.steps=800", "action=plan"]
    assert run.main(words) == 0
    assert f"\n{_line('training.steps=800')}\n" in capsys.readouterr().out
    assert run.main(["-m", "task=linear", "loops.b=12,16,20", *words[2:]]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"2 of 3 runs: {_line('training.steps=800')}"
