"""`text=`, `seeds=` and `first_seed=`: an experiment's runs with other texts and seeds."""

from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.experiments.settings import ExperimentSettings


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
