"""Runs that differ in their seed alone are one group."""

from dataclasses import dataclass

import numpy as np
import pytest

from looplab.conf.schema import Config
from looplab.evaluation.groups import grouped, labelled, labels_of
from looplab.evaluation.measured import Measured
from looplab.evaluation.statistics import NotMeasured


@dataclass(frozen=True)
class Planned:
    """A run of which the settings alone are known."""

    config: Config


def planned(*words: str) -> list[Planned]:
    return [Planned(Config.of(*each.split())) for each in words]


def test_seeds_are_one_group_by_rising_seeds_and_other_settings_others() -> None:
    runs = planned("task=linear seed=1", "task=linear loops.b=6 loops.T=3", "task=linear")
    found = [[run.config.seed for run in group.runs] for group in grouped(runs)]
    assert found == [[0, 1], [0]]
    assert [group.b for group in grouped(runs)] == [12, 6]


def test_what_moves_no_number_makes_a_group_only_where_it_is_varied() -> None:
    runs = planned("task=linear", "task=linear seed=1 training.recompute=true")
    assert len(grouped(runs)) == 1
    assert len(grouped(runs, varied=["training.recompute"])) == 2


def test_runs_that_differ_in_nothing_are_groups_of_their_own() -> None:
    runs = planned("task=linear", "task=linear name=again", "task=linear seed=1")
    assert [len(group.runs) for group in grouped(runs)] == [2, 1]


def test_labels_say_in_what_groups_differ() -> None:
    runs = planned("task=linear", "task=linear loops.b=6 loops.T=3", "task=linear model=standard")
    labels = ["looped, b = 12, T = 4", "looped, b = 6, T = 3", "standard"]
    assert [label for label, _ in labelled(runs)] == labels
    assert labels_of(grouped(planned("task=linear"))) == ["looped"]


def test_errors_are_stacked_by_seed_as_far_as_the_shortest_reaches() -> None:
    configs = [run.config for run in planned("task=linear seed=1", "task=linear")]
    arrays = [np.full((3, 5), 1.0), np.full((3, 4), 0.0)]
    runs = [
        Measured("looped", config, 1, {"by_loop": array})
        for config, array in zip(configs, arrays, strict=True)
    ]
    (group,) = grouped(runs)
    assert group.errors("by_loop").shape == (2, 3, 4)
    assert group.errors("by_loop")[:, 0, 0].tolist() == [0.0, 1.0]
    with pytest.raises(NotMeasured, match=r"evaluation\.shifts=\[noise\]"):
        group.errors("noise/model_at_b")
