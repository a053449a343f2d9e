"""What every entry point begins with: output that nobody reads, ASCII terminals, and Ctrl-C while
modules are imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HOME

RUN = str(HOME / "run.py")
MODULES = [
    *("probing", "probing.dynamics", "experiments.stability", "openml_eval"),
    *("experiments.scaling_law", "experiments.iso_depth", "reloop.benchmarks.parity"),
]
TINY = [
    *("task=linear", "task.dims=2", "task.points=4", "model=standard", "model.n_layer=1"),
    *("model.n_embd=8", "model.n_head=1", "training.steps=20", "training.batch_size=2"),
    *("training.log_every=1", "training.warmup=0", "evaluation.prompts=4"),
    *("evaluation.resamples=2", "evaluation.baselines=averaging"),
    *("curriculum.dims.start=null", "curriculum.points.start=null"),
]


def shell(command: str, folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Bash, in which "$@" is this Python."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}", "bash", sys.executable],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1", **extra},
        capture_output=True,
        text=True,
        check=False,
    )


def state(folder: Path) -> str:
    (run,) = (folder / "runs").iterdir()
    assert (run / "evaluation.json").exists()
    return str(json.loads((run / "status.json").read_text(encoding="utf-8"))["state"])


def test_a_training_goes_on_when_nobody_reads_it(tmp_path: Path) -> None:
    done = shell(f'"$@" {RUN} {" ".join(TINY)} | head -1', tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert state(tmp_path) == "finished"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict"])
def test_what_a_terminal_cannot_show_is_replaced(encoding: str, tmp_path: Path) -> None:
    done = shell(f'"$@" {RUN} --help', tmp_path, PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert "task.noise_std, ?" in done.stdout
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(f'"$@" {RUN} --help', tmp_path, **plain)
    assert done.returncode == 0
    assert "task.noise_std, ?" in done.stdout


@pytest.mark.parametrize("command", [f"{RUN} task=linear", "-m experiments.stability figure=toy"])
def test_a_working_directory_that_is_gone_is_one_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = shell(f'cd gone; rmdir "$PWD"; "$@" {command}', tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(": the working directory does not exist any more\n")
    assert done.stderr.count("\n") == 1


def interrupted(
    entry: str, words: list[str], module: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """An entry point that gets a SIGINT when it begins to import this module."""
    how = f"run_path({RUN!r}" if entry == "run.py" else f"run_module({entry!r}"
    code = (
        "import os, runpy, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Watch())\n"
        f"sys.argv[1:] = {words!r}\n"
        f"runpy.{how}, run_name='__main__')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("entry", ["run.py", *MODULES])
def test_ctrl_c_in_the_first_imports_ends_without_a_word(entry: str, tmp_path: Path) -> None:
    done = interrupted(entry, [], "reloop.conf.schema", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("entry", "words", "module"),
    [
        ("run.py", ["task=linear"], "hydra"),
        ("run.py", ["task=linear"], "torch"),
        ("run.py", ["task=linear"], "torch.nn"),
        ("openml_eval", [], "hydra"),
        ("experiments.iso_depth", [], "torch._C"),
        ("experiments.stability", ["figure=toy"], "numpy"),
        ("experiments.scaling_law", ["table=minima"], "scipy"),
    ],
)
def test_ctrl_c_in_a_later_import_ends_at_once_and_says_so(
    entry: str, words: list[str], module: str, tmp_path: Path
) -> None:
    done = interrupted(entry, words, module, tmp_path)
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.startswith("\nstopped")


def test_a_second_ctrl_c_does_not_cut_the_end_short(tmp_path: Path) -> None:
    code = (
        "from reloop.conf.entry import begin; begin()\n"
        "import atexit, os, signal; from reloop.conf.command import answered\n"
        "again = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "atexit.register(again)\n"
        "def do():\n"
        "    try: again()\n"
        "    finally: again()\n"
        "raise SystemExit(answered('name', do, 'stopped'))\n"
    )
    done = shell(f'"$@" -c "{code}"', tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "\nstopped\n", "")


def test_a_sigint_that_is_ignored_stays_so(tmp_path: Path) -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from reloop.conf.entry import begin; begin()\n"
        "from reloop.conf.command import answered\n"
        "def do(): os.kill(os.getpid(), signal.SIGINT); return 7\n"
        "os.kill(os.getpid(), signal.SIGINT); raise SystemExit(answered('name', do, ''))\n"
    )
    assert shell(f'"$@" -c "{code}"', tmp_path).returncode == 7


def test_a_notebooks_backend_that_is_not_installed_is_not_ours(tmp_path: Path) -> None:
    """What a cell's `!python` hands on: a command draws in memory, a script as matplotlib likes."""
    backend = {"MPLBACKEND": "module://not_here.backend_inline"}
    begun = "from reloop.conf.entry import begin; begin(); import os, matplotlib;"
    script = "from reloop import evaluate; import os, matplotlib;"
    for code, expected in ((begun, "agg"), (script, "None")):
        done = shell(f'"$@" -c "{code} print(os.environ.get(\'MPLBACKEND\'))"', tmp_path, **backend)
        assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


def test_a_users_file_is_not_taken_for_a_module(tmp_path: Path) -> None:
    """Nor a folder: `python -m` looks in the current one first."""
    for name in ("yaml", "statistics", "json", "numpy", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken for another module')")
    (tmp_path / "wandb").mkdir()
    done = shell('"$@" -m reloop task=linear wandb=offline', tmp_path)
    assert done.returncode == 2
    assert done.stderr == "run.py: wandb needs wandb, which is not installed (pip install wandb)\n"
