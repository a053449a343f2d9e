"""The wheel, installed away from the checkout, beside folders of somebody else's with our names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HOME

IMPORTS = (
    "from reloop import Config, LoopedClassifier, evaluate, load_run, register_task, train\n"
    "import models, sys\n"
    "assert models.__file__.startswith(sys.argv[1])\n"
    "print(Config.of('task=sparse_linear', 'seed=1').seed)\n"
)
SMALL = (
    *(
        "task.dims=2",
        "task.points=5",
        "model.n_embd=16",
        "model.n_head=2",
        "loops.b=2",
        "loops.T=1",
    ),
    *("curriculum.dims.start=2", "curriculum.loops.start=2", "training.steps=4", "device=cpu"),
    *("training.batch_size=4", "evaluation.prompts=8", "evaluation.resamples=4"),
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the built wheel was installed into."""
    source = tmp_path_factory.mktemp("source") / "project"
    unneeded = shutil.ignore_patterns(".*", "__pycache__", "runs", "build", "*.egg-info", "tests")
    shutil.copytree(HOME, source, symlinks=True, ignore=unneeded)
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "-w", "wheels"]
    subprocess.run([*pip, *build], cwd=source, check=True)
    (wheel,) = (source / "wheels").iterdir()
    into = ["install", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([*pip, *into], cwd=target, check=True)
    return target


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Somebody's project, whose folders have the names of ours."""
    for name in ("models", "tasks", "conf", "training"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("", encoding="utf-8")
    return tmp_path


def python(words: list[str], installed: Path, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_is_imported_beside_folders_of_the_same_names(installed: Path, elsewhere: Path) -> None:
    assert python(["-c", IMPORTS, str(elsewhere)], installed, elsewhere) == "1\n"


@pytest.mark.slow
def test_the_command_trains_and_evaluates(installed: Path, elsewhere: Path) -> None:
    said = python(["-m", "reloop", "task=linear", *SMALL], installed, elsewhere)
    assert "step 4/4" in said
    assert (elsewhere / "runs").is_dir()
    shipped = ["action=evaluate", "run=shipped/linear", "evaluation.prompts=8", "device=cpu"]
    assert "least squares" in python(["-m", "reloop", *shipped], installed, elsewhere)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["probing", "openml_eval", "experiments.stability", "benchmarks.time_to_quality"]
)
def test_other_commands_are_there(module: str, installed: Path, elsewhere: Path) -> None:
    assert "python -m" in python(["-m", f"reloop.{module}", "--help"], installed, elsewhere)


@pytest.mark.slow
def test_the_estimators_find_their_weights(installed: Path, elsewhere: Path) -> None:
    code = (
        "import numpy as np; from reloop import LoopedClassifier, LoopedRegressor\n"
        "x = np.random.default_rng(0).normal(size=(30, 3)); y = x[:, 0] > 0\n"
        "print(LoopedClassifier().fit(x, y).score(x, y) > 0.6)\n"
        "print(LoopedRegressor().fit(x, x[:, 0]).score(x, x[:, 0]) > 0.5)\n"
    )
    assert python(["-c", code], installed, elsewhere) == "True\nTrue\n"
