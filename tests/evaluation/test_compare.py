"""Runs side by side: the same prompts, paired intervals, and only what can be compared."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.comparison import Comparison
from looplab.show.compare import compare
from looplab.show.drawing import curve_styles
from looplab.show.evaluate import evaluate
from looplab.show.figures import comparison_panels, run_labels
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
    # Intervals of the difference are paired.
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


def test_seeds_of_a_setting_are_one_curve_and_settings_are_told_apart_in_words(
    tmp_path: Path,
) -> None:
    config = tiny_config(tmp_path)
    other = replace(config, model=replace(config.model, injection="multiply"))
    configs = [replace(each, seed=seed) for each in (config, other) for seed in (0, 1)]
    runs = [train(each) for each in configs]
    result = compare(runs, SETTINGS, tmp_path)
    assert [*result["curves"]] == ["added injection", "multiplied injection"]
    compared = Comparison.read(result)
    labels = run_labels(compared)
    means = []
    for label, of in result["curves"].items():
        each = [
            numbers(result["runs"][name]["by_examples"]["model"]["mean"]) for name in of["runs"]
        ]
        means.append(numbers(of["by_examples"]["mean"]))
        np.testing.assert_allclose(means[-1], np.mean(each, axis=0))
        assert [labels[name] for name in of["runs"]] == [
            f"{label}, {config.loops.b} loops, seed {seed}" for seed in (0, 1)
        ]  # fmt: skip
    drawn = comparison_panels(compared)[0].curves[:2]
    assert [curve.label for curve in drawn] == [*result["curves"]]
    assert len({style["color"] for style in curve_styles(drawn)}) == 2
    less = numbers(result["curves"]["multiplied injection"]["minus_first"]["mean"])

    np.testing.assert_allclose(less, means[1] - means[0], atol=1e-12)
    itself = result["curves"]["added injection"]["minus_first"]
    assert not any(np.abs(numbers(itself[part])).max() for part in ("mean", "low", "high"))


def test_only_runs_of_one_task_are_compared(tiny_run: Run, tmp_path: Path) -> None:
    """Those that differ in nothing have their folders' names."""
    task = tiny_run.config.task
    changes = {
        "task.sparsity is 2 in .* and 1 in": replace(task, settings={"sparsity": 1}),
        "task.points is 7 in .* and 6 in": replace(task, points=6),
    }
    for message, changed in changes.items():
        other = train(replace(tiny_run.config, task=changed))
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ConfigError, match=message):
            compare((tiny_run, other), SETTINGS, tmp_path)
        assert sorted(tmp_path.rglob("*")) == before
    again = replace(tiny_run, path=tmp_path / "again")
    shutil.copytree(tiny_run.path, again.path)
    result = compare([tiny_run, again], SETTINGS, tmp_path)
    assert [*result["curves"]] == [tiny_run.path.name, "again"]
