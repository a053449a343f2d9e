"""The snippets of the README and the guide, run as they stand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reloop.probing.targets import TARGETS
from reloop.reference import reference
from reloop.training import Run
from tests.conftest import HOME

TEXTS = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]
GUIDE = (HOME / "docs" / "guide.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The guide's code blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_the_function_class_of_the_guide_trains_by_the_command_line(tmp_path: Path) -> None:
    """In a copy of the project, with nothing added but the two files that the guide shows."""
    shutil.copy(HOME / "run.py", tmp_path)
    unneeded = shutil.ignore_patterns("__pycache__")
    for name in ("reloop", "conf", "tasks", "models", "curricula", "training", "evaluation"):
        shutil.copytree(HOME / name, tmp_path / name, symlinks=True, ignore=unneeded)
    (code,) = [block for block in blocks("python") if '@register_task("sinusoid")' in block]
    (settings,) = blocks("yaml")
    (tmp_path / "tasks" / "sinusoid.py").write_text(code, encoding="utf-8")
    (tmp_path / "conf" / "task" / "sinusoid.yaml").write_text(settings, encoding="utf-8")
    (command,) = re.findall(r"`python (run\.py task=sinusoid [^`]*)`", GUIDE)
    small = (
        "model.n_embd=16 model.n_head=2 loops.b=3 loops.T=2 training.steps=20 "
        "training.batch_size=8 training.log_every=10 task.distinct_prompts=1000 "
        "curriculum.dims.start=1 curriculum.dims.intervals=[5] evaluation.prompts=40 "
        "evaluation.resamples=20"
    )
    done = subprocess.run(
        [sys.executable, *command.split(), *small.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "step 20/20" in done.stdout
    assert "3-nearest neighbours" in done.stdout
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 16  # 'about ten lines' beside the imports and the docstring


def test_the_reference_is_that_of_the_schema() -> None:
    """Where it is not: python -m reloop.reference > docs/reference.md"""
    assert (HOME / "docs" / "reference.md").read_text(encoding="utf-8") == reference()


def test_the_readme_trains_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXTS[0].read_text("utf-8"), flags=re.DOTALL)
    small = (
        *("task.dims=3", "task.points=7", "model.n_embd=16", "model.n_head=2", "loops.b=3"),
        *("loops.T=2", "curriculum.dims.start=2", "curriculum.loops.start=2", "training.steps=5"),
        *("training.batch_size=8", "evaluation.loops=4", "evaluation.prompts=20", "device=cpu"),
    )
    exec(code.replace('"seed=1"', f'"seed=1", *{small}'), {})
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "evaluation.json").exists()


def test_the_python_example_runs_on_a_run_folder(tiny_run: Run) -> None:
    (code,) = [block for block in blocks("python") if "predictions = " in block]
    # The points first: the folder's name may hold the same digits.
    code = code.replace("11", "7").replace("runs/NAME", str(tiny_run.path))
    names: dict[str, object] = {}
    exec(code, names)
    assert list(names["predictions"].shape) == [30, 1, 7]  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_file_that_a_text_links_to_is_there(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_the_target_of_the_guide_is_probed(tiny_run: Run) -> None:
    (code,) = [block for block in blocks("python") if '@register_target("total")' in block]
    code = code.replace("runs/NAME", str(tiny_run.path))
    code = code.replace('("total",)', '("total",), steps=3, prompts=20, batch_size=8, resamples=5')
    known = dict(TARGETS)
    try:
        exec(code, {"__name__": "of_a_user"})
    finally:
        TARGETS.clear()
        TARGETS.update(known)
    found = json.loads((tiny_run.path / "probing.json").read_text())["targets"]["total"]
    assert (found["label"], found["lengths"][-1]) == ("sum of the outputs seen", 7)


def test_the_classifier_of_the_guide_reads_a_real_table() -> None:
    """In five lines, as they stand."""
    (code,) = [block for block in blocks("python") if "LoopedClassifier()" in block]
    assert len([line for line in code.splitlines() if line]) == 5
    names: dict[str, object] = {}
    exec(code, names)
    assert names["accuracy"] > 0.87  # type: ignore[operator]
