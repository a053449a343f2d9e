"""Wrong commands of all entry points: exit 2, one line that says what is wrong, nothing on stdout,
nothing written, no torch."""

import json
from pathlib import Path

from looplab.training import Run
from tests.conftest import HOME, python
from tests.wrong_commands import wrong_commands


def _files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_every_mistake_is_one_line_and_needs_no_torch(tiny_run: Run, tmp_path: Path) -> None:
    work, beside = tmp_path / "work", tmp_path / "beside"
    work.mkdir()
    (beside / "empty").mkdir(parents=True)
    (beside / "file").write_text("nothing\n")
    before = _files(tiny_run.path) | _files(beside)
    words = ["-m", "tests.wrong_commands", tiny_run.path, beside]
    done = python(*words, cwd=work, PYTHONPATH=str(HOME), PYTHONDONTWRITEBYTECODE="1")
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
            problems.append(f"{wrong}: {found}")
    assert not problems, "\n".join(problems)
    assert len(answers) == len(asked)
    assert _files(tiny_run.path) | _files(beside) == before
