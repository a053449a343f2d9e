"""The files of named experiments, and those of one's own."""

from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.experiments.definition import load, members_of
from looplab.experiments.settings import ExperimentSettings

from .conftest import TINY


def test_a_file_of_ones_own_is_an_experiment(tiny: Path) -> None:
    experiment = load(str(tiny))
    assert experiment.name == "tiny"
    labels = [member.label for member in members_of(experiment, "small")]
    assert labels == ["looped, b = 2"] * 2 + ["looped, b = 3"] * 2 + ["standard"] * 2
    command = ExperimentSettings((str(tiny),)).command(experiment)
    assert command == f"python run.py experiment={tiny} scale=small"


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
