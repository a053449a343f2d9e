"""`python run.py -m …` end to end: members together, failing, and their one table."""

import csv
import json
import time
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from looplab import main as run
from looplab import runs_table
from looplab.experiments import grid
from tests.test_cli import TINY


@pytest.fixture(autouse=True)
def in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    monkeypatch.chdir(tmp_path)


def test_members_of_a_grid_are_trained_together_into_the_same_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = "training.learning_rate=1e-3"  # Muon grows what is rounding
    grid = ["-m", *TINY, "recipe=paper", rate, "seed=0,1", "evaluation.seed=0,1", "jobs=1"]
    assert run.main([*grid, "together=true"]) == 0
    out = capsys.readouterr().out
    assert "and 1 more, together: done" in out
    assert "4 done, 0 failed" in out
    folders = sorted(path.name for path in (tmp_path / "runs").glob("sparse*"))
    assert len(folders) == 2
    # Alone they have the same folders and, to the rounding of sums, the same errors.
    assert run.main([*grid, "folder=alone"]) == 0
    assert ", together" not in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "alone").glob("sparse*")) == folders
    for name in folders:
        one, other = (
            json.loads((tmp_path / where / name / "evaluation.json").read_text())["by_examples"]
            for where in ("runs", "alone")
        )
        assert one["model"]["mean"] == pytest.approx(other["model"]["mean"], abs=1e-4)


@pytest.mark.slow
def test_the_tasks_of_an_array_end_as_a_grid_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """submitit's local executor stands in for Slurm."""
    pytest.importorskip("submitit")
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(grid, "_CLUSTER", "local")
    words = ["-m", *TINY, "seed=0,1"]
    assert run.main([*words, "engine=slurm"]) == 0
    assert "2 of 2 runs in 2 tasks" in capsys.readouterr().out
    end = time.monotonic() + 120
    while len([*tmp_path.glob("runs/sparse*/evaluation.json")]) < 2:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert run.main([*words, "folder=here", "jobs=1"]) == 0
    found, alone = (
        {
            path.parts[-3]: path.read_bytes()
            for path in tmp_path.glob(f"{folder}/*/*/*30.safetensors")
        }
        for folder in ("runs", "here")
    )
    assert found == alone
    assert len(found) == 2


def test_without_slurm_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert run.main(["-m", *TINY, "seed=0,1", "engine=slurm"]) == 2
    assert "engine cannot be slurm" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_seeds_end_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["-m", *TINY, "seed=0,1,2", "jobs=1"]) == 0
    out = capsys.readouterr().out
    assert "3 done, 0 failed" in out
    line = next(line for line in out.splitlines() if line.startswith("looped "))
    assert line.split()[1] == "3"
    (folder,) = (tmp_path / "runs").glob("grid-*")
    (row,) = csv.DictReader((folder / "settings.csv").read_text(encoding="utf-8").splitlines())
    assert (row["seeds"], row["k"]) == ("3", "6")
    mean = runs_table("runs").error.mean()
    assert float(row["last"]) == pytest.approx(mean, rel=1e-5)
    assert float(line.split()[2]) == pytest.approx(mean, rel=0.01)


def test_a_failing_member_is_recorded_and_does_not_end_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", *TINY, "training.learning_rate=1e30,1e-3", "recipe=paper", "jobs=1"]
    assert run.main(words) == 1
    out = capsys.readouterr().out
    assert "1 done, 1 failed" in out
    assert "failed: training.learning_rate=1e+30" in out
    assert "not finite" in out
    # Asked again: the good member is finished, the bad one fails again.
    assert run.main(words) == 1
    again = capsys.readouterr().out
    assert "learning_rate=0.001: done" not in again
    assert "1 done, 1 failed" in again
