"""The values of a searched setting."""

from __future__ import annotations

import math
from typing import Any

import pytest

from reloop.conf.mistakes import ConfigError
from reloop.experiments.search.definition import Search
from reloop.experiments.search.space import parameter

from .conftest import Write


def test_values_lie_between_their_ends() -> None:
    rate = parameter("training.muon_rate", {"low": 1e-4, "high": 1, "log": True}).of_type(0.02)
    assert rate.size == math.inf
    assert rate.value(0.123456789) == 0.123457
    assert rate.value(1.0000000001) == 1.0
    assert rate.scaled(1e-2) == pytest.approx(0.5)
    loops = parameter("loops.b", {"low": 4, "high": 12, "step": 3}).of_type(20)
    assert (loops.size, loops.ends, loops.value(7.0)) == (3, (4, 12), 7)
    assert isinstance(loops.value(7.0), int)
    norms = parameter("model.norm", {"values": ["in_loop", "at_readout"]})
    assert (norms.size, norms.is_number, norms.scaled("at_readout")) == (2, False, 1.0)
    intervals = parameter("curriculum.dims.intervals", {"values": [[10], [20, 30]]})
    assert intervals.value("[20,30]") == [20, 30]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (0.1, "must have low and high"),
        ({"low": 1}, "high must be given"),
        ({"low": 2, "high": 1}, "not below high"),
        ({"low": 0, "high": 1, "log": True}, "must be above 0 with log"),
        ({"low": 1, "high": 2, "log": True, "step": 1}, "cannot stand beside log"),
        ({"low": 1, "high": 2, "step": 2}, "must lie within the range"),
        ({"low": 1, "high": math.inf}, "must be finite"),
        ({"low": "a", "high": 2}, "must be a number"),
        ({"low": 1, "hihg": 2}, "did you mean 'high'"),
        ({"values": [1], "low": 1}, "has no meaning beside values"),
        ({"values": [1]}, "at least two"),
        ({"values": [1, 1]}, "holds 1 twice"),
        ({"values": [1, 2], "lwo": 1}, "is not a setting"),
    ],
)
def test_impossible_values_are_named(values: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        parameter("loops.b", values)
    assert "space.loops.b" in str(raised.value)


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        ("{}", "space is empty"),
        ("{training.rate: {low: 1, high: 2}}", "training.rate is not a setting"),
        ("{task.sparsity: {low: 1, high: 2}}", "task.sparsity is not a setting"),
        ("{training.learning_rate: {low: -1, high: 2}}", "must be above 0"),
        ("{loops.b: {low: 2, high: 3.5}}", "loops.b"),
        ("{model.norm: {low: 1, high: 2}}", "model.norm cannot be 1"),
        ("{loops.T: {low: 1, high: 2}}", "loops.T is in the space"),
        ("{seed: {low: 1, high: 2}}", "cannot be searched"),
        ("{model.n_embd: {values: [16, 15]}}", "n_embd"),
        ("{task.dims: {low: 1, high: 9, step: 2.5}}", "task.dims is in the space"),
        ("{loops.b: {low: 2, high: 8, step: 2.5}}", "loops.b is in the space"),
        ("{curriculum.loops.inc: {low: 1, high: 9, step: 2.5}}", "step must be a whole number"),
    ],
)
def test_a_space_is_checked_as_a_run_s_settings_are(
    search_file: Write, space: str, problem: str
) -> None:
    search_file(f"space: {space}")
    with pytest.raises(ConfigError, match=problem):
        Search.of(["search=mine.yaml"])


def test_words_go_over_those_of_the_file(search_file: Write) -> None:
    search_file("trials: 3", "pruning: {rungs: [0.5], keep: 0.3}")
    words = ["search=mine.yaml", "task.points=5", "trials=9", "seed=4", "pruning.keep=0.6"]
    search = Search.of(words)
    assert (search.settings.trials, search.settings.pruning.keep) == (9, 0.6)
    assert search.settings.pruning.rungs == (0.5,)
    assert (search.first.task.points, search.first.seed) == (5, 4)
    assert Search.of(["search=mine.yaml", "pruning=false"]).settings.pruning.rungs == ()
    other = [
        "search=mine.yaml",
        "task.points=5",
        "trials=30",
        "tables.format=csv",
        "sampler=random",
    ]
    assert search.folder == Search.of([*other, "seed=4"]).folder
    assert search.folder != Search.of([*other, "seed=5"]).folder


def test_the_search_that_ships_can_be_read() -> None:
    search = Search.of(["search=rate"])
    assert search.first.task.name == "linear"
    assert [each.is_log for each in search.parameters] == [True, True]
