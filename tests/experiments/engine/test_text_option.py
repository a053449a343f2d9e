"""`text=` of experiments on language models."""

from pathlib import Path

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
