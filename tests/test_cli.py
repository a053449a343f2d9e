"""The command line end to end: runs, grids, finished and failing members, exit codes."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from reloop import main as run
from reloop.training.run_folder.run import RunFolder
from tests.conftest import HOME
from tests.training.reference.reference_runs import leiay_run

TINY = [
    *("task=sparse_linear", "task.dims=3", "task.points=7", "task.sparsity=1"),
    *("model.n_embd=16", "model.n_head=2", "curriculum.dims.start=null", "loops.b=3", "loops.T=2"),
    *("training.steps=30", "training.batch_size=8", "training.checkpoint_every=10"),
    *("training.log_every=10", "training.warmup=0"),
    *("evaluation.prompts=40", "evaluation.resamples=20"),
]


@pytest.fixture(autouse=True)
def in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    monkeypatch.chdir(tmp_path)


def test_one_command_trains_evaluates_draws_and_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(TINY) == 0
    out = capsys.readouterr().out
    assert "step 30/30" in out
    assert "least squares" in out
    (folder,) = (tmp_path / "runs").iterdir()
    for name in (
        *("config.yaml", "environment.json", "metrics.jsonl", "status.json", "checkpoints"),
        *("evaluation.json", "evaluation.npz", "figures/error_by_loop.png"),
    ):
        assert (folder / name).exists(), name
    # The same command shows the same result without a step; an evaluation asked for by its folder
    # never trains.
    assert run.main(TINY) == 0
    again = capsys.readouterr().out
    assert "step" not in again
    assert "trained already" in again
    assert out[out.index("\n\nk") :] == again[again.index("\n\nk") :]
    # What is not given is the run's own: its 40 prompts, not the scale's.
    assert run.main(["action=evaluate", f"run={folder}", "evaluation.loops=5"]) == 0
    assert "looped, 5 loops" in capsys.readouterr().out
    assert json.loads((folder / "evaluation.json").read_text())["prompts"] == 40


def test_runs_are_compared_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["-m", *TINY, "seed=0,1", "jobs=1"]) == 0
    folders = ",".join(str(path) for path in (tmp_path / "runs").glob("sparse*"))
    capsys.readouterr()
    assert run.main(["action=compare", f"runs=[{folders}]", "evaluation.prompts=30"]) == 0
    out = capsys.readouterr().out
    assert "30 prompts" in out
    assert "looped, 3 loops, seed 0" in out  # its own b, not the scale's evaluation.loops
    (place,) = (tmp_path / "runs").glob("compare-*")
    assert {path.name for path in place.iterdir()} == {
        *("comparison.json", "comparison.npz", "figures")
    }
    # A folder of another task is refused in a line, and a comparison is no run.
    words = [word for word in TINY if not word.startswith(("task=", "task.sparsity"))]
    assert run.main([*words, "task=linear"]) == 0
    (other,) = (tmp_path / "runs").glob("linear-*")
    for wrong, message in ((other, "cannot be compared: task is"), (place, "is no run folder")):
        capsys.readouterr()
        assert run.main(["action=compare", f"runs=[{folders},{wrong}]"]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    assert len(list((tmp_path / "runs").glob("compare-*"))) == 1


def test_halting_and_shifted_inputs_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluation.loops=auto", "evaluation.tolerance=0.1", "evaluation.halt_on=state"]
    shifts = ["evaluation.shifts=[orthogonal_query,scaled_x_2]", "evaluation.baselines=[ridge]"]
    assert run.main([*TINY, *words, *shifts]) == 0
    out = capsys.readouterr().out
    for text in ("looped, halting", "mean loops used", "orthogonal query", "x · 2", "ridge, λ = "):
        assert text in out
    assert "averaging" not in out
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "figures" / "shifts.png").exists()


@pytest.mark.parametrize("model", ["tied", "standard"])
def test_the_other_families_run_by_the_same_command(model: str) -> None:
    words = [word for word in TINY if not word.startswith("loops.")]
    assert run.main([*words, f"model={model}", "model.n_layer=2"]) == 0


@pytest.mark.slow
def test_members_of_a_grid_are_trained_together_into_the_same_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(words: list[str]) -> tuple[list[str], str]:
        assert run.main(words) == 0
        out = capsys.readouterr().out
        return re.findall(r"and \d+ more, together\n", out), out

    rates = ["recipe=paper", "training.learning_rate=1e-3,2e-3"]  # Muon's products are in bf16
    grid = ["-m", *TINY, *rates, "seed=0,1", "evaluation.seed=0,1", "jobs=1"]
    tied = [word for word in TINY if not word.startswith("loops.")]
    messages, out = shown([*grid, "together=true"])
    assert messages == ["and 3 more, together\n"]
    assert "8 done, 0 failed" in out
    folders = sorted(path.name for path in (tmp_path / "runs").glob("sparse*"))
    assert len(folders) == 4
    # Alone they have the same folders and, to the rounding of sums, the same errors.
    assert shown([*grid, "folder=alone"])[0] == []
    assert sorted(path.name for path in (tmp_path / "alone").glob("sparse*")) == folders
    for name in folders:
        one, other = (
            json.loads((tmp_path / where / name / "evaluation.json").read_text())["by_examples"]
            for where in ("runs", "alone")
        )
        assert one["model"]["mean"] == pytest.approx(other["model"]["mean"], abs=1e-4)
    # Models of two shapes are two groups, and what nothing can join is trained by itself.
    families = ["-m", *tied, "model=tied,standard", "seed=0,1", "together=auto", "jobs=1"]
    assert shown(families)[0] == ["and 1 more, together\n"] * 2
    large = [word for word in TINY if not word.startswith(("training.steps", "training.batch"))]
    large += ["training.steps=0", "training.batch_size=50000"]
    messages, out = shown(["-m", *large, "seed=0,1", "together=auto", "jobs=1"])
    assert not messages
    assert "no members are trained together" in out


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("loops.stop_at=0.1", "loops.stop_at ends the loops of each run by its own states"),
        ("loops.sampling=uniform", "loops drawn for each step differ between seeds"),
    ],
)
def test_members_that_cannot_be_trained_together_are_told_why(
    word: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for word in TINY if not word.startswith("training.steps")]
    grid = ["-m", *words, "training.steps=0", "seed=0,1", "together=true", "jobs=1", word]
    assert run.main(grid) == 0
    assert f"no members are trained together: {why}\n" in capsys.readouterr().out


def test_of_a_group_with_a_folder_in_use_the_others_are_trained_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(TINY) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    others: set[str] = set()
    lock = RunFolder(folder).lock()
    lock.__enter__()

    def release() -> None:
        """After the others, or a minute."""
        end = time.monotonic() + 60
        while len(others) < 2 and time.monotonic() < end:
            time.sleep(0.05)
            paths = {path for path in (tmp_path / "runs").glob("sparse*") if path != folder}
            others.update(
                path.name for path in paths if RunFolder(path).status()["state"] == "finished"
            )
        lock.__exit__(None, None, None)

    thread = threading.Thread(target=release)
    thread.start()
    assert run.main(["-m", *TINY, "seed=1,0,2", "together=true", "jobs=1"]) == 0
    thread.join()
    assert len(others) == 2
    assert "3 done, 0 failed" in capsys.readouterr().out


def test_seeds_end_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["-m", *TINY, "seed=0,1,2", "jobs=1"]) == 0
    out = capsys.readouterr().out
    assert "3 done, 0 failed" in out
    line = next(line for line in out.splitlines() if line.startswith("all "))
    assert line.split()[1] == "3"
    (folder,) = (tmp_path / "runs").glob("grid-*")
    with open(folder / "members.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["seed"], row["k"]) for row in rows] == [
        (str(seed), str(k)) for seed in range(3) for k in range(7)
    ]
    last = [float(row["error"]) for row in rows if row["k"] == "6"]
    assert float(line.split()[2]) == pytest.approx(sum(last) / 3, rel=0.01)


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
    (folder,) = (tmp_path / "runs").glob("grid-*")
    (failure,) = (folder / "logs" / "failures").iterdir()
    assert "not finite" in json.loads(failure.read_text())["reason"]


def test_on_failure_stop_begins_no_more_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", *TINY, "training.learning_rate=1e30,1e-3", "recipe=paper", "jobs=1"]
    assert run.main([*words, "on_failure=stop"]) == 1
    out = capsys.readouterr().out
    assert "0 done, 1 failed, 1 new" in out
    assert run.main(words) == 1
    assert "1 done, 1 failed" in capsys.readouterr().out


def test_a_device_that_is_not_here_is_found_before_a_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["-m", *TINY, "device=cpu,cuda:99"]) == 2
    err = capsys.readouterr().err
    assert err == "run.py: device cannot be 'cuda:99' on this machine\n"
    assert not (tmp_path / "runs").exists()


def test_a_reference_checkpoint_is_imported_and_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Their folders' names hold braces.
    path = leiay_run(tmp_path / "0607-LR_loop_L1_ends{20}_T{15}-ab12")
    assert run.main(["action=import", f"checkpoint={path}"]) == 0
    out = capsys.readouterr().out
    assert "looped, 1 x 16 wide, 2 heads" in out
    assert "after 7000 steps" in out
    command = out.strip().splitlines()[-1].removeprefix("python run.py ")
    words = [*command.split(), "evaluation.prompts=20", "evaluation.resamples=5"]
    assert run.main(words) == 0
    assert "least squares" in capsys.readouterr().out
    assert run.main(["action=import", f"checkpoint={path}"]) == 0
    assert "imported already" in capsys.readouterr().out
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "evaluation.json").exists()


def test_a_file_that_cannot_be_imported_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model_5.pt").write_bytes(b"hello")
    assert run.main(["action=import", "checkpoint=model_5.pt", "model.n_head=2"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("run.py: model_5.pt is no checkpoint")
    assert err.count("\n") == 1
    path = leiay_run(tmp_path / "theirs")
    assert run.main(["action=import", f"checkpoint={path}", "model.n_head=5"]) == 2
    assert capsys.readouterr().err.startswith("run.py: model.n_head must divide model.n_embd")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_saves_and_says_how_to_go_on(number: int, code: int, tmp_path: Path) -> None:
    words = [word.replace("steps=30", "steps=100000") for word in TINY]
    environment = {**os.environ, "PYTHONPATH": str(HOME), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, str(HOME / "run.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    while "step 20/" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "the same command resumes" in out
    assert "Traceback" not in err
    (folder,) = (tmp_path / "runs").iterdir()
    assert '"interrupted"' in (folder / "status.json").read_text()
