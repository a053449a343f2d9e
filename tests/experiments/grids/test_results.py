"""The statistics of a grid against independent formulas."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import ttest_ind, ttest_rel

from looplab.conf.compose import commands
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.load import load_run
from looplab.evaluation.statistics import hierarchical_test
from looplab.experiments.grid import train_grid
from looplab.experiments.grid_result import (
    Cell,
    Grid,
    by_holm,
    cells_of,
    effect_rows,
    paired_tests,
    setting_rows,
)
from looplab.show.plotting import plot

_WORDS = ["task=linear", "task.dims=2", "task.points=4", "model.n_embd=8", "model.n_head=2"]


def _difference(means: Sequence[Floats]) -> Floats:
    return means[0][..., 0] - means[1][..., 0]


def _results(words: list[str], error: dict[str, float]) -> tuple[Grid, list[EvaluatedRun]]:
    """Runs of a grid whose errors are exponential with the mean of the setting, the same draws for
    every member, and a little noise of the seed."""
    grid = Grid.of(commands([*_WORDS, *words], multirun=True))
    found = []
    draws = np.random.default_rng(0).exponential(size=(400, 4))
    for member, settings in zip(grid.members, grid.settings, strict=True):
        mean = math.prod(error[f"{key}={value}"] for key, value in settings.items())
        noise = 1 + 0.01 * np.random.default_rng(member.config.seed).standard_normal()
        arrays = {"model_at_b": draws * mean * noise, "model": draws * mean * noise}
        found.append(EvaluatedRun(member.label, member.config, 0, arrays, {"": {}}))
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
    (test,), (effect,), first = result["tests"], result["effects"], result["settings"][0]
    assert (test["differ in"], first["seeds"]) == ("loops.T", 2)
    # With one varied setting they are the same, of which one is shown.
    assert effect["ratio"] == pytest.approx(1 / test["ratio"])
    assert (effect["p"], effect["p, Holm"]) == pytest.approx((test["p"], test["p"]))
    assert f"{effect['ratio']:.3g}" in repr(result)
    assert repr(result).count("over that of") == 1
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
    cells = cells_of(grid, runs)
    tests = paired_tests(cells)
    found = {(test["first"], test["second"]): test for test in tests}
    assert set(found) == {(f"b = {a}", f"b = {b}") for a, b in ((4, 6), (4, 8), (6, 8))}
    different, alike = found["b = 4", "b = 6"], found["b = 6", "b = 8"]
    assert different["ratio"] == pytest.approx(2)
    assert different["p, Holm"] < 0.01
    assert alike["p, Holm"] > 0.5
    least = 0.0
    for place, test in enumerate(sorted(tests, key=lambda each: each["p"])):
        least = max(least, (3 - place) * test["p"])
        assert test["p, Holm"] == pytest.approx(min(1, least))
    row = setting_rows(cells)[0]
    assert row["last_low"] < row["last"] < row["last_high"]


def test_only_settings_that_differ_in_one_value_are_compared() -> None:
    words = ["loops.b=4,6", "training.learning_rate=1e-3,1e-2", "seed=0,1"]
    error = {"loops.b=4": 1.0, "loops.b=6": 0.5}
    error |= {"training.learning_rate=0.001": 1.0, "training.learning_rate=0.01": 0.7}
    grid, runs = _results(words, error)
    tests = paired_tests(cells_of(grid, runs))
    assert sorted(test["differ in"] for test in tests) == [
        *["loops.b"] * 2, *["training.learning_rate"] * 2
    ]  # fmt: skip


def test_no_squared_error_has_an_interval_below_zero() -> None:
    """Not even where one seed has nearly all of it."""
    errors = [np.full((50, 1), mean) for mean in (0.01, 1.0)]
    (row,) = setting_rows([_cell({"loops.b": "4"}, errors)])
    assert 0 < row["last_low"] < row["last"] == pytest.approx(0.505)
    assert row["last_high"] > 1


def _cell(settings: dict[str, str], errors: Sequence[Floats]) -> Cell:
    """A cell of the errors [prompts, k] of each seed."""
    return Cell(str(settings), settings, (*range(len(errors)),), np.stack(errors), Config())


def _cells(
    tokens: dict[str, float], signs: dict[str, int], seeds: int, spread: float
) -> list[Cell]:
    """Cells whose errors, the same for each prompt, are those of the tokens times one of the loops.
    Seeds spread evenly about them, the first one below where the sign of the loops is 1."""
    cells = []
    for value, error in tokens.items():
        for place, (b, sign) in enumerate(signs.items()):
            noise = np.exp(sign * spread * np.linspace(-1, 1, seeds))
            errors = error * (1 + 0.1 * place) * noise[:, None, None] * np.ones((1, 40, 2))
            cells.append(_cell({"model.tokens": value, "loops.b": b}, [*errors]))
    return cells


_BOTH = {"interleaved": 0.4, "pairs": 0.14}
_VARIED = ["model.tokens", "loops.b"]


@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.2), (4, 0.5)])
def test_an_effect_is_the_geometric_mean_over_the_others_with_the_seed_as_the_unit(
    seeds: int, spread: float
) -> None:
    """Without a spread of prompts its p-value is Welch's, of one value for each seed."""
    cells = _cells(_BOTH, {"4": 1, "8": -1, "12": 1}, seeds, spread)
    effects = effect_rows(cells, _VARIED)
    about = [(row["setting"], row["value"], row["against"], row["over"]) for row in effects]
    assert about == [
        ("model.tokens", "pairs", "interleaved", "3 values of b"),
        ("loops.b", "8", "4", "2 values of tokens"),
        ("loops.b", "12", "4", "2 values of tokens"),
        ("loops.b", "12", "8", "2 values of tokens"),
    ]
    effect = effects[0]
    means = np.array([cell.errors.mean((1, 2)) for cell in cells]).reshape(2, 3, seeds)
    of_cells = np.log(means.mean(2))
    assert effect["ratio"] == pytest.approx(np.exp((of_cells[1] - of_cells[0]).mean()))
    assert effect["low"] < 0.35 < effect["high"] < 1
    welch = ttest_ind(*np.log(means).mean(1), equal_var=False).pvalue
    assert effect["p"] == pytest.approx(max(welch, 1 / 2000), rel=0.1)
    of_tokens = [each["p"] for each in paired_tests(cells) if each["differ in"] == "model.tokens"]
    assert len(of_tokens) == 3
    assert effect["p"] < min(of_tokens) / 3
    adjusted = [row["p, Holm"] for row in effects]
    assert adjusted == pytest.approx(by_holm([row["p"] for row in effects]))
    assert (effect["seeds"], effect["note"]) == (seeds, "")


def test_two_seeds_that_disagree_settle_nothing_and_it_says_how_many_would() -> None:
    """As the same two do in every cell, however many cells there are."""
    cells = _cells(_BOTH, {"4": 1, "8": 1, "12": 1, "16": 1}, 2, 0.5)
    effect = effect_rows(cells, _VARIED)[0]
    assert effect["ratio"] < 0.6
    assert effect["p, Holm"] > 0.1
    assert effect["note"].startswith("about ")
    assert effect["note"].endswith(" seeds would settle it")


def test_cells_of_one_seed_are_no_independent_repetitions() -> None:
    """Of values that differ in nothing one in ten is told apart, not more, though their seeds are
    the same in four cells."""
    random = np.random.default_rng(3)
    below = 0
    for _ in range(100):
        noise = np.exp(0.2 * random.standard_normal((2, 3, 1, 1)))
        errors = noise * random.exponential(size=(1, 1, 40, 1))
        cells = [
            _cell({"model.tokens": value, "loops.b": b}, [*errors[place]])
            for place, value in enumerate(("interleaved", "pairs"))
            for b in ("4", "8", "12", "16")
        ]
        below += effect_rows(cells, _VARIED)[0]["p"] < 0.1
    assert below <= 18  # 1 % of fair tests would give more


def test_an_effect_is_over_what_both_values_were_measured_in() -> None:
    """A combination is missing, and a seed of another."""
    cells = _cells(_BOTH, {"4": 1, "8": -1, "12": 1}, 3, 0.01)
    cells[5] = _cell({"model.tokens": "pairs", "loops.b": "12"}, [*cells[5].errors[:2]])
    rows = effect_rows([cells[0], *cells[2:]], _VARIED)
    effect = rows[0]
    assert (effect["over"], effect["seeds"], effect["most_seeds"]) == ("2 values of b", 2, 3)
    last = [cells[index].last.mean() for index in (3, 0, 5, 2)]
    assert effect["ratio"] == pytest.approx(math.sqrt(last[0] / last[1] * last[2] / last[3]))
    alone = [row for row in rows if {row["value"], row["against"]} == {"8", "4"}]
    assert [row["over"] for row in alone] == ["1 value of tokens"]


def test_of_more_than_three_values_each_is_compared_with_the_first() -> None:
    cells = _cells({"pairs": 0.1}, {"4": 1, "8": 1, "12": 1, "16": 1}, 2, 0.01)
    found = [(row["against"], row["value"]) for row in effect_rows(cells, _VARIED)]
    assert found == [("4", "8"), ("4", "12"), ("4", "16")]


def test_a_grid_is_the_same_in_another_order_and_another_one_with_another_evaluation(
    tmp_path: Path,
) -> None:
    def folder(*words: str) -> Path:
        return Grid.of(commands([*_WORDS, *words], multirun=True)).folder

    assert folder("seed=0,1", "loops.b=4,6") == folder("loops.b=6,4", "seed=1,0")
    assert folder("seed=0,1") != folder("seed=0,1", "evaluation.prompts=7")
    assert folder("seed=0,1", "name=mine").name.startswith("grid-mine-")
