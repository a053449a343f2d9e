"""Runs side by side: the same prompts, paired intervals, and only what can be compared."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import compare, evaluate, load_run
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.report import comparison_table
from looplab.training import Run, train
from tests.conftest import batches_of, tiny_config

pytestmark = pytest.mark.usefixtures("undrawn")

SETTINGS = EvaluationConfig(prompts=200, resamples=200, batch_size=64)


def test_evaluations_of_runs_are_compared_and_nothing_is_computed_again(
    two_runs: tuple[Run, Run], tmp_path: Path
) -> None:
    alone = [evaluate(run, SETTINGS) for run in two_runs]
    with batches_of(two_runs[0].model, most=0), batches_of(two_runs[1].model, most=0):
        result = compare(two_runs, SETTINGS, tmp_path)
    for run, evaluation in zip(two_runs, alone, strict=True):
        entry = result["runs"][run.path.name]
        for part in ("by_examples", "by_loop", "b"):
            assert entry[part] == evaluation[part]
    assert result["labels"] == alone[0]["labels"]
    shown = json.loads((Path(result["path"]) / "comparison.json").read_text())
    assert shown["runs"] == result["runs"]


def test_intervals_of_the_difference_are_paired(two_runs: tuple[Run, Run], tmp_path: Path) -> None:
    result = compare(two_runs, SETTINGS, tmp_path)
    first, second = result["runs"].values()
    assert np.abs(numbers(first["minus_first"]["by_examples"]["high"])).max() == 0
    each = (run["by_examples"]["model"] for run in (first, second))
    bands = (second["minus_first"]["by_examples"], *each)
    means, lows, highs = (
        np.array([numbers(band[part])[-1] for band in bands]) for part in ("mean", "low", "high")
    )
    np.testing.assert_allclose(means[0], means[2] - means[1])
    # Two barely trained models err on the same prompts: far narrower than the two intervals.
    paired, *apart = highs - lows
    assert 0 < paired < sum(apart) / 3


def test_a_comparison_leaves_the_runs_own_results_alone(
    two_runs: tuple[Run, Run], tmp_path: Path
) -> None:
    evaluate(two_runs[0], replace(SETTINGS, prompts=50))
    path = two_runs[0].path / "evaluation.json"
    before = path.read_bytes()
    result = compare(two_runs, SETTINGS, tmp_path)
    assert path.read_bytes() == before
    assert not (two_runs[1].path / "evaluation.json").exists()
    assert compare(two_runs, SETTINGS, tmp_path)["path"] == result["path"]
    assert compare(two_runs[::-1], SETTINGS, tmp_path)["path"] != result["path"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dims": 2, "settings": {"sparsity": 2}}, "task.dims is 3 in .* and 2 in"),
        ({"settings": {"sparsity": 1}}, "task.sparsity is 2 in .* and 1 in"),
        ({"points": 6}, "task.points is 7 in .* and 6 in"),
        ({"name": "linear", "settings": {}}, "task is sparse_linear in .* and linear in"),
    ],
)
def test_runs_of_different_tasks_are_refused(
    tiny_run: Run, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    config = tiny_config(tmp_path)
    other = train(replace(config, task=replace(config.task, **change)))  # type: ignore[arg-type]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=message):
        compare((tiny_run, other), SETTINGS, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_of_one_name_are_told_apart_before_they_are_mixed_up(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "elsewhere" / tiny_run.path.name
    shutil.copytree(tiny_run.path, copy)
    with pytest.raises(ConfigError, match="more than once"):
        compare([tiny_run, load_run(copy)], SETTINGS, tmp_path)
    monkeypatch.chdir(tiny_run.path)
    with pytest.raises(ConfigError, match="more than once"):
        compare([load_run("."), load_run(tiny_run.path)], SETTINGS, tmp_path)
    other = train(replace(tiny_config(tmp_path), seed=5))
    result = compare([load_run("."), other], SETTINGS, tmp_path)
    assert list(result["runs"]) == [tiny_run.path.name, other.path.name]


def test_the_table_shows_every_run_beside_the_first(
    two_runs: tuple[Run, Run], tmp_path: Path
) -> None:
    lines = comparison_table(compare(two_runs, SETTINGS, tmp_path)).splitlines()
    assert "200 prompts" in lines[0]
    assert lines[2].startswith("looped, 4 loops, seed 1")
    assert lines[3].startswith("standard, 2 layers, seed 1")
    assert any(line.startswith("Lasso") for line in lines)
