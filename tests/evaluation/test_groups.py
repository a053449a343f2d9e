"""Runs that differ in their seed alone are one group."""

from dataclasses import dataclass

import numpy as np
import pytest

from looplab.conf.schema import Config
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.groups import grouped, labelled, labels_of
from looplab.evaluation.statistics import NotMeasured


@dataclass(frozen=True)
class Planned:
    """A run of which the settings alone are known."""

    config: Config


def planned(*words: str) -> list[Planned]:
    return [Planned(Config.of("task=linear", *each.split())) for each in words]


@pytest.mark.parametrize(
    ("runs", "varied", "seeds"),
    [
        (["seed=1", "loops.b=6 loops.T=3", ""], [], [[0, 1], [0]]),
        # What moves no number makes a group only where it is varied.
        (["", "seed=1 training.recompute=true"], [], [[0, 1]]),
        (["", "seed=1 training.recompute=true"], ["training.recompute"], [[0], [1]]),
        # Runs that differ in nothing are groups of their own.
        (["", "name=again", "seed=1"], [], [[0, 1], [0]]),
    ],
)
def test_seeds_are_one_group_by_rising_seeds_and_other_settings_others(
    runs: list[str], varied: list[str], seeds: list[list[int]]
) -> None:
    groups = grouped(planned(*runs), varied=varied)
    assert [[run.config.seed for run in group.runs] for group in groups] == seeds
    assert groups[0].b == 12


def test_labels_say_in_what_groups_differ() -> None:
    runs = planned("", "loops.b=6 loops.T=3", "model=standard")
    labels = ["looped, b = 12, T = 4", "looped, b = 6, T = 3", "standard"]
    assert [label for label, _ in labelled(runs)] == labels
    assert labels_of(grouped(planned(""))) == ["looped"]


def test_errors_are_stacked_by_seed_as_far_as_the_shortest_reaches() -> None:
    first, second = planned("seed=1", "")
    runs = [
        EvaluatedRun("looped", first.config, 1, {"by_loop": np.ones((3, 5))}),
        EvaluatedRun("looped", second.config, 1, {"by_loop": np.zeros((3, 4))}),
    ]
    (group,) = grouped(runs)
    assert group.errors("by_loop").shape == (2, 3, 4)
    assert group.errors("by_loop")[:, 0, 0].tolist() == [0.0, 1.0]
    with pytest.raises(NotMeasured, match=r"evaluation\.shifts=noise"):
        group.errors("noise/model_at_b")
