"""What every entry point begins with: output that nobody reads, ASCII terminals, and Ctrl-C while
modules are imported."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HOME, python
from tests.training.tiny import WORDS

RUN = str(HOME / "run.py")


def shell(command: str, folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Bash, in which "$@" is this Python."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}", "bash", sys.executable],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HOME), **extra},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_training_goes_on_when_nobody_reads_it(tmp_path: Path) -> None:
    done = shell(f'"$@" {RUN} {" ".join(WORDS)} | head -1', tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "evaluation.json").exists()
    assert json.loads((run / "status.json").read_text(encoding="utf-8"))["state"] == "finished"


def test_what_a_terminal_cannot_show_is_replaced(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(f'"$@" {RUN} --help', tmp_path, **plain)
    assert done.returncode == 0
    assert "task.noise_std, ?" in done.stdout


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
    return python("-c", code, cwd=folder, PYTHONPATH=str(HOME))


@pytest.mark.parametrize("entry", ["run.py", "probing"])
def test_ctrl_c_in_the_first_imports_ends_without_a_word(entry: str, tmp_path: Path) -> None:
    done = interrupted(entry, [], "looplab.conf.schema", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("entry", "words", "module"),
    [("run.py", ["task=linear"], "torch"), ("experiments.scaling_law", ["table=minima"], "scipy")],
)
def test_ctrl_c_in_a_later_import_ends_at_once_and_says_so(
    entry: str, words: list[str], module: str, tmp_path: Path
) -> None:
    done = interrupted(entry, words, module, tmp_path)
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.startswith("\nstopped")


def test_a_second_ctrl_c_does_not_cut_the_end_short(tmp_path: Path) -> None:
    code = (
        "from looplab.conf.entry import begin; begin()\n"
        "import atexit, os, signal; from looplab.conf.command import answered\n"
        "again = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "atexit.register(again)\n"
        "def do():\n"
        "    try: again()\n"
        "    finally: again()\n"
        "raise SystemExit(answered('name', do, 'stopped'))\n"
    )
    done = shell(f'"$@" -c "{code}"', tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "\nstopped\n", "")


def test_a_users_file_is_not_taken_for_a_module(tmp_path: Path) -> None:
    """Nor a folder: `python -m` looks in the current one first."""
    for name in ("yaml", "statistics", "json", "numpy", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken for another module')")
    (tmp_path / "tensorboard").mkdir()
    done = shell('"$@" -m looplab task=linear tensorboard=true', tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("looplab: tensorboard needs ")
    assert "No module named 'tensorboard'" in done.stderr


@pytest.mark.parametrize("command", [[RUN, "task=linear"], ["-m", "probing"]])
def test_a_python_without_the_packages_is_one_line(command: list[str]) -> None:
    """-S is Python alone, without its site-packages."""
    done = python("-S", *command)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"looplab: {sys.executable} has no package ")
    assert re.search(r"; (make setup|source \S*\.venv/bin/activate)\n$", done.stderr)


def test_run_py_is_found_where_python_does_not_search_its_folder(tmp_path: Path) -> None:
    done = python("-P", RUN, "task=lin", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("run.py: task cannot be 'lin'; did you mean 'linear'?")
