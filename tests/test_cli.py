"""The command line end to end: runs, comparisons, imports, signals, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests.conftest import HOME, Command, Refused, python
from tests.models.reference_codes import leiay_run

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


def test_one_command_trains_evaluates_draws_and_shows(command: Command, tmp_path: Path) -> None:
    out = command(*TINY)
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
    again = command(*TINY)
    assert "step" not in again
    assert "trained already" in again
    assert out[out.index("\n\nk") :] == again[again.index("\n\nk") :]
    # What is not given is the run's own: its 40 prompts, not the scale's.
    assert "looped, 5 loops" in command("action=evaluate", f"run={folder}", "evaluation.loops=5")
    assert json.loads((folder / "evaluation.json").read_text())["prompts"] == 40


def test_runs_are_compared_by_one_command(
    command: Command, refused: Refused, tmp_path: Path
) -> None:
    command("-m", *TINY, "seed=0,1", "jobs=1")
    folders = ",".join(str(path) for path in (tmp_path / "runs").glob("sparse*"))
    out = command("action=compare", f"runs=[{folders}]", "evaluation.prompts=30")
    assert "30 prompts" in out
    assert "looped, 3 loops, seed 0" in out  # its own b, not the scale's evaluation.loops
    (place,) = (tmp_path / "runs").glob("compare-*")
    assert {path.name for path in place.iterdir()} == {*("comparison.json", "figures")}
    # A folder of another task is refused in a line, and a comparison is no run.
    words = [word for word in TINY if not word.startswith(("task=", "task.sparsity"))]
    command(*words, "task=linear")
    (other,) = (tmp_path / "runs").glob("linear-*")
    for wrong, message in ((other, "cannot be compared: task is"), (place, "is no run folder")):
        assert message in refused("action=compare", f"runs=[{folders},{wrong}]")
    assert len(list((tmp_path / "runs").glob("compare-*"))) == 1


def test_the_beginning_of_a_folders_name_is_answered_by_the_folders_that_begin_so(
    refused: Refused, tmp_path: Path
) -> None:
    for name in ("heavy-1", "heavy-2", "heavy-3", "heavy-4", "heavy-5", "light-1"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").touch()
    said = refused("action=evaluate", "run=runs/heavy")
    first = ", ".join(f"runs/heavy-{number}" for number in (1, 2, 3, 4))
    assert said.endswith(f"; folders that begin so: {first}, …\n")


def test_halting_and_shifted_inputs_by_one_command(command: Command, tmp_path: Path) -> None:
    words = ["evaluation.loops=auto", "evaluation.tolerance=0.1", "evaluation.halt_on=state"]
    shifts = ["evaluation.shifts=[orthogonal_query,scaled_x_2]", "evaluation.baselines=[ridge]"]
    out = command(*TINY, *words, *shifts)
    for text in (
        "looped, early exit",
        "mean loops used",
        "orthogonal query",
        "x · 2",
        "ridge, λ = ",
    ):
        assert text in out
    assert "averaging" not in out
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "figures" / "shifts.png").exists()


@pytest.mark.parametrize("model", ["tied", "standard"])
def test_the_other_families_run_by_the_same_command(command: Command, model: str) -> None:
    words = [word for word in TINY if not word.startswith("loops.")]
    command(*words, f"model={model}", "model.n_layer=2")


def test_a_reference_checkpoint_is_imported_and_evaluated(command: Command, tmp_path: Path) -> None:
    # Their folders' names hold braces.
    path = leiay_run(tmp_path / "0607-LR_loop_L1_ends{20}_T{15}-ab12")
    out = command("action=import", f"checkpoint={path}")
    assert "looped, 1 x 16 wide, 2 heads" in out
    assert "after 7000 steps" in out
    told = out.strip().splitlines()[-1].removeprefix("python run.py ").split()
    assert "least squares" in command(*told, "evaluation.prompts=20", "evaluation.resamples=5")
    assert "imported already" in command("action=import", f"checkpoint={path}")
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "evaluation.json").exists()


def test_a_file_that_cannot_be_imported_is_one_line_and_exit_code_1(
    refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "model_5.pt").write_bytes(b"hello")
    err = refused("action=import", "checkpoint=model_5.pt", "model.n_head=2", code=1)
    assert err.startswith("run.py: model_5.pt is no checkpoint")
    path = leiay_run(tmp_path / "theirs")
    err = refused("action=import", f"checkpoint={path}", "model.n_head=5")
    assert err.startswith("run.py: model.n_embd must be a multiple of")
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


@pytest.mark.slow
def test_a_compiler_that_does_not_compile_is_one_line(tmp_path: Path) -> None:
    """As where its headers are not installed."""
    compiler = tmp_path / "bin" / "g++"
    compiler.parent.mkdir()
    compiler.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo 1 && exit\necho no headers >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    path = f"{compiler.parent}:{os.environ['PATH']}"
    done = python(HOME / "run.py", *TINY, "backend=compile", cwd=tmp_path, PATH=path)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("run.py: backend=compile cannot compile here: ")
    assert "no headers" in line
    assert "Traceback" not in done.stderr
