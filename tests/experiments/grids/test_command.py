"""`python run.py -m …` end to end: members that fail, one that another process works on, which
waits and has not failed, and their one table."""

import csv
import threading
import time
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from looplab import main as run
from looplab import runs_table
from looplab.conf.compose import commands
from looplab.experiments import grid
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.conftest import HOME
from tests.test_cli import TINY


@pytest.fixture(autouse=True)
def in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_tasks_of_an_array_end_as_a_grid_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """submitit's local executor stands in for Slurm; it runs no setup, which has the path."""
    pytest.importorskip("submitit")
    monkeypatch.setenv("PYTHONPATH", str(HOME))
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


def test_slurm_starts_nothing_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Finished members would be trained anew in this process."""
    assert run.main(["-m", *TINY, "seed=0,1", "engine=slurm", "again=true"]) == 2
    assert "again cannot be true with engine=slurm" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


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
    assert "failed: rate 1,000,000" in out
    assert "not finite" in out
    # Asked again: the good member is finished, the bad one fails again.
    assert run.main(words) == 1
    again = capsys.readouterr().out
    assert "rate 0.001, seed 0: done" not in again
    assert "1 done, 1 failed" in again


def test_a_member_that_is_held_is_done_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*TINY, "seed=0,1", f"folder={tmp_path}"]
    first, second = (run_folder(each.config) for each in commands(words, multirun=True))
    first.path.mkdir(parents=True)
    holding = threading.Event()

    def hold_until_the_other_is_done() -> None:
        with first.lock():
            holding.set()
            while RunFolder(second.path).status()["state"] != "finished":
                time.sleep(0.05)

    thread = threading.Thread(target=hold_until_the_other_is_done)
    thread.start()
    assert holding.wait(60)
    assert run.main(["-m", *words, "jobs=1"]) == 0
    thread.join()
    said = capsys.readouterr()
    assert said.out.count("in use by process ") == 1
    assert ", waiting\n" in said.out
    assert "2 done, 0 failed" in said.out
    assert said.err == ""
