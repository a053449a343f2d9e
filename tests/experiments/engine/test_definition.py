"""The files of named experiments, and those of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.experiments.command import ExperimentSettings
from looplab.experiments.definition import load, members_of
from looplab.training.run_folder.run import run_folder

from .conftest import TINY


@pytest.mark.parametrize("name", ["fig02", "language_fully_looped"])
def test_every_experiment_has_runs_that_run_py_would_train(name: str) -> None:
    experiment = load(name)
    for scale in experiment.scales:
        for member in members_of(experiment, scale):
            words = [word for word in member.words if "${" not in word]
            if len(words) == len(member.words):
                alone = replace(Config.of(*words), evaluation=member.config.evaluation)
                assert run_folder(alone).path == run_folder(member.config).path


def test_a_file_of_ones_own_is_an_experiment(tiny: Path) -> None:
    experiment = load(str(tiny))
    assert experiment.name == "tiny"
    labels = [member.label for member in members_of(experiment, "small")]
    assert labels == ["looped, b = 2"] * 2 + ["looped, b = 3"] * 2 + ["standard"] * 2
    command = ExperimentSettings((str(tiny),)).command(experiment)
    assert command == f"python run.py experiment={tiny} scale=small"


def test_seeds_of_the_command_replace_those_of_the_file(tiny: Path) -> None:
    seeds = {member.config.seed for member in members_of(load(str(tiny)), "small", seeds=3)}
    assert seeds == {0, 1, 2}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: Two tiny models", "titel: x", "titel is not a setting; did you mean 'title'"),
        ("small:", "smal:", "did you mean 'small'"),
        ('label: "looped, b = {loops.b}", ', "", "has a label"),
        ("title: Two", "title: [Two", "cannot be read"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(tiny: Path, old: str, new: str, message: str) -> None:
    assert old in TINY
    tiny.write_text(TINY.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load(str(tiny))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(tiny) in str(error.value)


def test_a_mistake_in_a_run_names_its_setting(tiny: Path) -> None:
    tiny.write_text(TINY.replace("training.steps: 4", "training.stepz: 4"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"training\.stepz is not a setting.*training\.steps"):
        members_of(load(str(tiny)), "small")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("figg10", "did you mean 'fig10'"),
        ("missing.yaml", "is no file"),
        ("fig10.yaml", "comes with the project"),
    ],
)
def test_an_experiment_that_does_not_exist(tiny: Path, name: str, message: str) -> None:
    Path("fig10.yaml").write_text(TINY, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load(name)
