"""Tables that are absent, too wide or too short, and settings that cannot be: one line each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from reloop.conf.mistakes import ConfigError, RunError
from reloop.conf.schema import Config
from reloop.evaluation import evaluate, load_run
from reloop.evaluation.evaluate_run import evaluation_of
from reloop.tasks import make_task
from reloop.training import train
from tests.tasks.small_tables import SIZES, task, write
from tests.tasks.statistics import generator

DIMS, POINTS = 6, 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"held_out": "delta"}, "held_out is 'delta', none of the tables: alpha, beta, gamma"),
        ({"tables": ("beta",)}, "tables must hold one to train on, beside held_out"),
        ({"protocol": "publshed"}, "protocol cannot be 'publshed'; expected one of corrected"),
    ],
)
def test_settings_that_cannot_be(folder: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        task(folder, **settings)


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    made = task(tmp_path)
    with pytest.raises(RunError, match=r"alpha\.npz"):
        made.check_data()
    with pytest.raises(RunError, match=r"gamma\.npz|alpha\.npz"):
        made.sample(generator(), 2, POINTS)


def test_more_features_or_points_than_there_is_room_for(folder: Path) -> None:
    with pytest.raises(RunError, match=r"beta has 5 features, more than the 4 .*task.dims=5"):
        task(folder, dims=4).check_data()
    task(folder, dims=5).check_data()
    with pytest.raises(ConfigError, match=r"task.points is 301, and a table has 300 rows"):
        task(folder).sample(generator(), 2, 301)
    with pytest.raises(ConfigError, match=r"task.points is 241, and a table has 240 rows"):
        task(folder).for_evaluation().sample(generator(), 2, 241)
    with pytest.raises(ConfigError, match=r"training.batch_size is 24.* 285 rows"):
        task(folder, protocol="reference").sample(generator(), 24, POINTS)


def test_lists_from_a_file_become_tuples(folder: Path) -> None:
    settings = {"data_dir": str(folder), "tables": list(SIZES), "held_out": "beta"}
    assert make_task("tables", DIMS, settings=settings) == task(folder)


def test_a_run_finds_its_tables_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data")
    words = [
        *("task=tables", "task.data_dir=data", "task.tables=[alpha,beta,gamma]"),
        *("task.held_out=beta", "model.n_embd=16", "model.n_head=2", "training.steps=2"),
        *("evaluation.prompts=8", "evaluation.resamples=5", "task.points=7", "loops.b=2"),
    ]
    run = train(Config.of(*words, "loops.T=2", f"folder={tmp_path / 'runs'}"))
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(evaluate(load_run(run.path))["by_loop"]["loop"]) > 1


def test_an_evaluation_on_other_tables_is_another_one(
    tmp_path: Path, undrawn: dict[str, Figure]
) -> None:
    """Neither is shown for the other, and their numbers are not put together."""
    words = [
        *("task=tables", "task.tables=[alpha,beta,gamma]", "task.held_out=beta", "task.points=7"),
        *("model.n_embd=16", "model.n_head=2", "training.steps=2", "loops.b=2", "loops.T=2"),
        *("evaluation.prompts=8", "evaluation.resamples=5", f"folder={tmp_path / 'runs'}"),
    ]
    (tmp_path / "data").mkdir()
    folder = write(tmp_path / "data")
    run = train(Config.of(*words, f"task.data_dir={folder}"))
    first = evaluate(run)
    for path in folder.glob("*.npz"):
        with np.load(path) as arrays:
            kept = dict(arrays)
        np.savez(path, **(kept | {"xs": kept["xs"][::-1]}))
    again = load_run(run.path)
    second = evaluate(again, replace(again.config.evaluation, baselines=("majority",)))
    assert first["by_loop"] != second["by_loop"]
    assert evaluation_of(again)["by_loop"] == second["by_loop"]
    assert any("other data" in line for line in second["remarks"])
