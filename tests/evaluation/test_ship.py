"""Models that come with the project: how a run becomes one, and shipped/<name> as a run folder."""

from pathlib import Path

import pytest
import torch

from looplab.conf import saved
from looplab.conf.build import config_to_mapping
from looplab.conf.compose import commands
from looplab.conf.mistakes import ConfigError
from looplab.evaluation.export.export import export
from looplab.evaluation.load import load_run
from looplab.evaluation.remarks import remarks
from looplab.show.card import card
from looplab.training import Run
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import RunFolder
from looplab.training.validation import evaluation_prompts

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of its own for what ships, and another working directory."""
    folder = tmp_path / "shelf"
    monkeypatch.setattr(saved, "SHELF", folder)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def test_a_shipped_model_is_a_run_like_any_other(tiny_run: Run, shelf: Path) -> None:
    """But nothing says where it was trained."""
    export(tiny_run, shelf / "tiny", card)
    found = load_run("shipped/tiny")
    assert (found.path.parent, found.path.name[:5]) == (Path("runs/shipped"), "tiny-")
    for name, tensor in tiny_run.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], tensor)
    assert found.step == 40
    assert remarks(found) == remarks(tiny_run)  # and not that other code trained it
    assert saved.read_config(Path("shipped/tiny")).task == tiny_run.config.task
    (command,) = commands(["action=evaluate", "run=shipped/tiny"])
    assert command.config.evaluation == tiny_run.config.evaluation
    assert config_to_mapping(saved.read_config(shelf / "tiny"))["folder"] == "runs"
    for path in (shelf / "tiny").rglob("*.*"):
        assert str(tiny_run.path.parent) not in path.read_text(errors="replace")
    made_with = RunFolder(shelf / "tiny").made_with() or {}
    assert "command" not in made_with
    assert "git_commit" in made_with
    with pytest.raises(ConfigError, match=r"those that do: shipped/tiny"):
        load_run("shipped/tinny")


@pytest.mark.parametrize("name", saved.shipped_names())
def test_what_ships_is_small_and_better_than_predicting_zero(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = load_run(f"shipped/{name}")
    files = [path for path in (saved.SHELF / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4_000_000
    prompts = evaluation_prompts(run.task, 64, run.config.task.points, seed=1)
    with torch.no_grad():
        predictions = run.model(prompts, trained_loops(run.config))
    left = (predictions[-1] - prompts.ys)[:, -1].square().mean() / run.task.divisor
    assert float(left) < 0.3
