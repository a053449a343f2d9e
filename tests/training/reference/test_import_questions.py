"""What an import asks for, in which words, what it says of what it cannot check; and its run
folder: what it records, found again, never written over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation import load_run
from looplab.training import RunError, import_checkpoint, train
from looplab.training.run_folder.files import read_json
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.models.reference_codes import garg_weights, leiay_weights
from tests.training.reference.reference_runs import SAID, STEP, leiay_run, save_state

ONE_LAYER = leiay_weights(n_positions=50)


@pytest.mark.parametrize(
    ("weights", "given", "missing"),
    [
        (
            ONE_LAYER,
            {"loops.b": 4},
            "task, task.points, model, model.n_head, model.injection, loops.T",
        ),
        (
            ONE_LAYER,
            {"task": "noisy_linear", "model": "tied"},
            "task.noise_std, task.renormalize, task.points, model.n_head, loops.b",
        ),
        (garg_weights(2, n_positions=50), {"task": "linear"}, "task.points, model.n_head"),
    ],
)
def test_only_what_is_known_to_be_needed_is_asked_for(
    weights: dict[str, Any], given: dict[str, Any], missing: str, tmp_path: Path
) -> None:
    path, runs = save_state(tmp_path / "a" / "state.pt", weights), tmp_path / "runs"
    with pytest.raises(ConfigError, match=f"state.pt does not say {re.escape(missing)}: say them"):
        import_checkpoint(path, given, str(runs))
    assert not runs.exists()


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_where_every_setting_comes_from_is_kept(tmp_path: Path) -> None:
    path = leiay_run(tmp_path)
    run = import_checkpoint(path, {"task.points": 6}, str(tmp_path / "runs"))
    environment = json.loads((run.path / "environment.json").read_text())
    assert {"command", "torch", "git_commit"} < environment.keys()
    record = environment["imported"]
    assert record["checkpoint"] == str(path)
    assert re.fullmatch("[0-9a-f]{64}", record["sha256"])
    assert (record["code"], record["holds"]) == ("Leiay/looped_transformer", "a training state")
    assert record["from_checkpoint"]["model.n_embd"] == 16
    assert record["from_config"]["training.learning_rate"] == 3e-4
    assert record["from_command"] == {"task.points": 6}
    assert run.path.name == f"sparse_linear-looped-imported-{record['sha256'][:8]}"
    status = RunFolder(run.path).status()
    assert (status["state"], status["step"]) == ("finished", STEP)


def test_what_is_not_known_stays_at_its_default_and_is_not_recorded(tmp_path: Path) -> None:
    path = save_state(tmp_path / "state.pt", leiay_weights())
    run = import_checkpoint(path, SAID, str(tmp_path / "runs"))
    assert run.config.training.learning_rate == Config().training.learning_rate
    record = read_json(run.path / "environment.json")["imported"]
    assert record["from_config"] == {}
    assert "training.learning_rate" not in {*record["from_checkpoint"], *record["from_command"]}


def test_the_same_command_finds_the_same_folder_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, runs = leiay_run(tmp_path / "theirs"), tmp_path / "runs"
    first = import_checkpoint(path, {}, str(runs))
    assert "imported already" not in capsys.readouterr().out
    before = files(runs)
    again = import_checkpoint(path, {}, str(runs))
    assert again.path == first.path
    assert f"{first.path}: imported already" in capsys.readouterr().out
    assert files(runs) == before
    assert [p.name for p in runs.iterdir()] == [first.path.name]


def test_what_stands_in_the_way_is_never_written_over(tmp_path: Path) -> None:
    path, runs = leiay_run(tmp_path / "theirs"), tmp_path / "runs"
    run = import_checkpoint(path, {}, str(runs))
    before = files(runs)
    with pytest.raises(RunError, match=r"other settings \(loops\.b is 6, not 5\): move it away"):
        import_checkpoint(path, {"loops.b": 5}, str(runs))
    assert files(runs) == before
    (weights,) = (run.path / "checkpoints").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(RunError, match="is damaged: remove it and import again"):
        import_checkpoint(path, {}, str(runs))
    (run.path / "environment.json").write_text("{}")
    before = files(runs)
    with pytest.raises(RunError, match="is in the way: it is no import of "):
        import_checkpoint(path, {}, str(runs))
    assert files(runs) == before


def test_an_import_that_is_cut_short_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    path, runs = leiay_run(tmp_path / "theirs"), tmp_path / "runs"
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_status", full)
        with pytest.raises(OSError, match="no space"):
            import_checkpoint(path, {}, str(runs))
    assert list(runs.iterdir()) == []
    assert load_run(import_checkpoint(path, {}, str(runs)).path).step == STEP


def test_training_begins_anew_and_never_goes_on_from_an_import(tmp_path: Path) -> None:
    said = SAID | {"training.steps": 2}
    path = tmp_path / "weights.pt"
    torch.save(leiay_weights(), path)
    run = import_checkpoint(path, said, str(tmp_path / "runs"))
    before = files(run.path)
    assert run_folder(run.config).path != run.path
    trained = train(run.config)
    assert trained.path != run.path
    assert not torch.equal(trained.model.read_in.weight, run.model.read_in.weight)
    assert files(run.path) == before
