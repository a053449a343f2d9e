"""The files of named experiments, and those of one's own; `text=`, `seeds=` and `first_seed=`: an
experiment's runs with other texts and seeds."""

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


def _settings(*names: str, text: str = "", folder: str = "runs") -> ExperimentSettings:
    return ExperimentSettings(experiment=names, text=text, folder=folder)


def test_its_runs_read_the_text_and_its_results_have_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    folders = set()
    for place in (tmp_path / "a" / "train.txt", tmp_path / "train.txt"):
        place.write_text("a line of text\n" * 2000)
        settings = _settings("language_test_loops", text=str(place), folder=str(tmp_path))
        settings.check()
        (experiment,) = settings.experiments
        members = settings.members(experiment)
        assert {member.config.task.settings["text"] for member in members} == {str(place)}
        assert f"text={place}" in settings.command(experiment)
        folder = settings.result_folder(experiment)
        assert folder.name.startswith("language_test_loops-small-on-train-")
        folders.add(folder)
    folders.add(_settings("language_test_loops").result_folder(experiment))
    assert len(folders) == 3


def test_fresh_seeds_are_runs_of_their_own_in_a_folder_of_their_own() -> None:
    kept = ExperimentSettings(experiment=("fig03",), seeds=2)
    fresh = ExperimentSettings(experiment=("fig03",), seeds=2, first_seed=2)
    fresh.check()
    (experiment,) = fresh.experiments
    assert {member.config.seed for member in fresh.members(experiment)} == {2, 3}
    assert "first_seed=2" in fresh.command(experiment)
    assert fresh.result_folder(experiment) != kept.result_folder(experiment)


def test_fresh_seeds_of_an_experiment_without_runs_are_refused() -> None:
    with pytest.raises(ConfigError, match="first_seed has no meaning for stability_fig2"):
        ExperimentSettings(experiment=("stability_fig2",), first_seed=1).check()
