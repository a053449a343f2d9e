"""An experiment of seconds, in a file of one's own."""

import shutil
from pathlib import Path

import pytest

from looplab.experiments.command import main
from tests.conftest import without_rendering

TINY = """
title: Two tiny models
source: a test
panels: [{kind: by_loop}, {kind: by_examples}, {kind: by_value, x: loops.b}]
claims: {}
small:
  seeds: 2
  runs:
    - {label: "looped, b = {loops.b}", task: linear, model: looped, loops.b: [2, 3], loops.T: 2,
       task.dims: 2, task.points: 4, model.n_embd: 8, model.n_head: 1, training.steps: 4,
       training.batch_size: 4, training.warmup: 0, curriculum.loops.start: 2}
    - {label: standard, task: linear, model: standard, model.n_layer: 1, task.dims: 2,
       task.points: 4, model.n_embd: 8, model.n_head: 1, training.steps: 4,
       training.batch_size: 4, training.warmup: 0}
  evaluation: {prompts: 8, resamples: 10, max_loops: 5}
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file `tiny.yaml` in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs folder of the tiny experiment, carried out."""
    folder = tmp_path_factory.mktemp("experiment")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        without_rendering(patch)
        Path("tiny.yaml").write_text(TINY, encoding="utf-8")
        assert main(["experiment=tiny.yaml", "jobs=1"]) == 0
    return folder / "runs"


@pytest.fixture
def trained(tiny: Path, trained_once: Path) -> Path:
    """The same as `tiny`, with its runs trained, evaluated and drawn in runs/."""
    shutil.copytree(trained_once, tiny.parent / "runs")
    return tiny
