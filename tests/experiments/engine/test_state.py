"""How far an experiment's trainings are, and the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.conf.saved import SHELF, read_config, shipped_names
from looplab.experiments.definition import load, members_of
from looplab.experiments.many_runs import Estimates, progress
from looplab.experiments.plan import plan
from looplab.experiments.settings import ExperimentSettings
from looplab.training import train


@pytest.mark.parametrize("name", [name for name in shipped_names() if "standard" not in name])
def test_a_model_that_ships_is_a_finished_run_of_its_settings(name: str) -> None:
    config = read_config(SHELF / name)
    assert progress(config) == (f"shipped/{name}", "finished", config.training.steps)
    other = replace(config, seed=config.seed + 1)
    assert progress(other).state == "new"


def test_a_training_counts_by_the_work_that_is_done(tiny: Path) -> None:
    first, second, *_ = (member.config for member in members_of(load(str(tiny)), "small"))
    train(first, until=2)
    assert progress(first).state == "interrupted"
    left = Estimates([first, second]).left()
    assert 0 < left[0] < left[1]
    train(first)
    assert progress(first)[1:] == ("finished", 4)
    assert Estimates([first, second]).left()[0] == 0


def test_a_plan_lists_runs_and_trains_none(tiny: Path) -> None:
    settings = ExperimentSettings((str(tiny),), action="plan", jobs=2)
    text = plan(settings)
    assert text.count("new") == 6
    assert "6 of 6 runs are to be trained: about" in text
    assert "with 2 at once" in text
    assert not Path("runs").exists()
    train(members_of(load(str(tiny)), "small")[0].config)
    text = plan(settings)
    assert "5 of 6 runs are to be trained" in text
    assert text.count("finished") == 1
