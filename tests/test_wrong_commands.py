"""Hundreds of wrong commands over all entry points: exit 2, one line that says what is wrong,
nothing on stdout, nothing written, no torch, and soon."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from looplab.training import Run
from tests.conftest import HOME, python
from tests.wrong_commands import wrong_commands

_SECONDS = 3.0  # of a processor, that one wrong command may take


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """An empty folder to work in, and one with the things that commands name."""
    work, beside = tmp_path / "work", tmp_path / "beside"
    work.mkdir()
    (beside / "empty").mkdir(parents=True)
    (beside / "file").write_text("nothing\n")
    return work, beside


def _files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def _started(words: list[str], work: Path) -> subprocess.CompletedProcess[str]:
    return python(*words, cwd=work, PYTHONPATH=str(HOME), PYTHONDONTWRITEBYTECODE="1")


def test_every_mistake_is_one_line_and_needs_no_torch(
    tiny_run: Run, places: tuple[Path, Path]
) -> None:
    work, beside = places
    before = _files(tiny_run.path) | _files(beside)
    done = _started(["-m", "tests.wrong_commands", str(tiny_run.path), str(beside)], work)
    assert done.returncode == 0, done.stderr
    asked, answers = list(wrong_commands(tiny_run.path, beside)), json.loads(done.stdout)
    problems = []
    for wrong, found in zip(asked, answers, strict=False):
        name = wrong.entry if wrong.entry != "run" else "run.py"
        told = found["err"]
        good = (
            found["code"] == 2
            and told.startswith(f"{name}: ")
            and told.count("\n") == 1
            and wrong.expected in told
        )
        if not good or found["out"] or found["left"]:
            problems.append(f"{wrong.name}: {found}")
    assert not problems, "\n".join(problems)
    assert len(answers) == len(asked)
    assert _files(tiny_run.path) | _files(beside) == before


def test_they_are_many_distinct_and_of_all_entry_points(tmp_path: Path) -> None:
    asked = list(wrong_commands(tmp_path, tmp_path))
    assert len({(wrong.entry, wrong.words) for wrong in asked}) == len(asked) >= 300
    entries = Counter(wrong.entry for wrong in asked)
    assert min(entries.values()) >= 15
    assert set(entries) == {
        *("run", "probing", "probing.dynamics", "openml_eval"),
        "experiments.scaling_law",
    }


@pytest.mark.slow
def test_each_as_a_process_of_its_own_is_soon(tiny_run: Run, places: tuple[Path, Path]) -> None:
    import resource

    work, beside = places
    problems = []
    for wrong in wrong_commands(tiny_run.path, beside):
        module = [str(HOME / "run.py")] if wrong.entry == "run" else ["-m", wrong.entry]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = _started([*module, *wrong.words], work)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        one_line = done.stderr.count("\n") == 1 and not done.stdout
        if done.returncode != 2 or not one_line or seconds > _SECONDS or list(work.iterdir()):
            problems.append(f"{wrong.name}: {done.returncode}, {seconds:.1f} s, {done.stderr}")
    assert not problems, "\n".join(problems)
