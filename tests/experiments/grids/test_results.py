"""The statistics of a grid against independent formulas."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import ttest_rel

from looplab.conf.compose import commands
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.load import load_run
from looplab.evaluation.measured import Measured
from looplab.evaluation.statistics import hierarchical_test
from looplab.experiments.grid import (
    Grid,
    errors_by_setting,
    paired_tests,
    setting_rows,
    train_grid,
)
from looplab.show.plotting import plot

_WORDS = ["task=linear", "task.dims=2", "task.points=4", "model.n_embd=8", "model.n_head=2"]


def _difference(means: Sequence[Floats]) -> Floats:
    return means[0][..., 0] - means[1][..., 0]


def _results(words: list[str], error: dict[str, float]) -> tuple[Grid, list[Measured]]:
    """Runs of a grid whose errors are exponential with the mean of the setting, the same draws for
    every member, and a little noise of the seed."""
    grid = Grid.of(commands([*_WORDS, *words], multirun=True))
    found = []
    draws = np.random.default_rng(0).exponential(size=(400, 4))
    for member in grid.members:
        mean = math.prod(
            error[f"{key}={value}"] for key, value in grid.settings[member.label].items()
        )
        noise = 1 + 0.01 * np.random.default_rng(member.config.seed).standard_normal()
        arrays = {"model_at_b": draws * mean * noise, "model": draws * mean * noise}
        found.append(Measured(member.label, member.config, 0, arrays, {"": {}}))
    return grid, found


def test_a_grid_in_a_notebook(
    tmp_path: Path,
    undrawn: dict[str, Figure],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["training.steps=3", "evaluation.prompts=8", "loops.b=2", "loops.T=1,2", "seed=0,1"]
    result = train_grid(*_WORDS, *words, jobs=1)
    shown = result._repr_html_()
    for name in ("T = 1", "T = 2"):
        assert name in shown
        assert name in repr(result)
    (test,), first = result["tests"], result["settings"][0]
    assert (test["differ in"], first["seeds"]) == ("loops.T", 2)
    runs = [load_run(each["run"]) for each in result["members"] if each["label"] == test["first"]]
    errors = [run.errors().model_at_b_mean.iloc[-1] for run in runs]
    assert first["last"] == pytest.approx(np.mean(errors), rel=1e-5)
    # From what was returned, from the folder on the next day, and from its file.
    content = json.loads(Path(result["path"], "result.json").read_text(encoding="utf-8"))
    for again in (result, result["path"], content):
        assert "T" in plot(again).get_xlabel()
        curves = plot(again, result["panels"][-1]["name"], labels={"T = 2": "two"}).lines
        assert {"T = 1", "two"} <= {curve.get_label() for curve in curves}
    pyplot.close("all")
    # The grid's curves have new names, and no run is asked for them.
    capsys.readouterr()
    train_grid(*_WORDS, *words, "figures.labels=T = 1: one, T = 3: three", jobs=1)
    (legend,) = undrawn[Path(result["panels"][-1]["name"]).name].legends
    assert {"one", "T = 2"} <= {text.get_text() for text in legend.get_texts()}
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "figures.labels" in line]
    assert "names 'T = 3', which no curve is called; did you mean 'T = " in line
    train_grid(*_WORDS, *words, "again=true", jobs=1)
    assert len([*Path("runs").glob("*-before-*")]) == 4


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_with_one_seed_the_test_is_the_paired_t_test_over_prompts(shift: float) -> None:
    rng = np.random.default_rng(3)
    one = rng.standard_normal(500)
    other = one + 0.8 * rng.standard_normal(500) + shift
    groups = [one[None, :, None], other[None, :, None]]
    p = hierarchical_test(groups, _difference, resamples=20_000)
    assert p == pytest.approx(ttest_rel(one, other).pvalue, abs=0.02, rel=0.15)


def test_the_test_keeps_its_level_for_three_seeds() -> None:
    """Where settings differ in nothing, about one test in ten is below 0.1, not more."""
    rng, below = np.random.default_rng(5), 0
    for _ in range(200):
        seeds = rng.normal(1, 0.2, (2, 3, 1, 1))
        groups = list(seeds * rng.exponential(size=(1, 1, 60, 1)))
        below += hierarchical_test(groups, _difference, resamples=200) < 0.1
    assert below <= 30  # 1 % of fair tests would give more


def test_settings_that_differ_are_told_apart_and_those_that_do_not_are_not() -> None:
    words = ["loops.b=4,6,8", "seed=0,1,2"]
    grid, runs = _results(words, {"loops.b=4": 1.0, "loops.b=6": 0.5, "loops.b=8": 0.5})
    errors = errors_by_setting(runs)
    tests = paired_tests(grid, errors)
    found = {(test["first"], test["second"]): test for test in tests}
    assert set(found) == {(f"loops.b={a}", f"loops.b={b}") for a, b in ((4, 6), (4, 8), (6, 8))}
    different, alike = found["loops.b=4", "loops.b=6"], found["loops.b=6", "loops.b=8"]
    assert different["ratio"] == pytest.approx(2)
    assert different["p, Holm"] < 0.01
    assert alike["p, Holm"] > 0.5
    least = 0.0
    for place, test in enumerate(sorted(tests, key=lambda each: each["p"])):
        least = max(least, (3 - place) * test["p"])
        assert test["p, Holm"] == pytest.approx(min(1, least))
    row = setting_rows(grid, errors)[0]
    assert row["last_low"] < row["last"] < row["last_high"]


def test_only_settings_that_differ_in_one_value_are_compared() -> None:
    words = ["loops.b=4,6", "training.learning_rate=1e-3,1e-2", "seed=0,1"]
    error = {"loops.b=4": 1.0, "loops.b=6": 0.5}
    error |= {"training.learning_rate=0.001": 1.0, "training.learning_rate=0.01": 0.7}
    grid, runs = _results(words, error)
    tests = paired_tests(grid, errors_by_setting(runs))
    assert sorted(test["differ in"] for test in tests) == [
        *["loops.b"] * 2, *["training.learning_rate"] * 2
    ]  # fmt: skip


def test_a_grid_is_the_same_in_another_order_and_another_one_with_another_evaluation(
    tmp_path: Path,
) -> None:
    def folder(*words: str) -> Path:
        return Grid.of(commands([*_WORDS, *words], multirun=True)).folder

    assert folder("seed=0,1", "loops.b=4,6") == folder("loops.b=6,4", "seed=1,0")
    assert folder("seed=0,1") != folder("seed=0,1", "evaluation.prompts=7")
    assert folder("seed=0,1", "name=mine").name.startswith("grid-mine-")
