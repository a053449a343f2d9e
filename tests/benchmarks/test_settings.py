"""The settings that are measured are those that the command line composes."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from looplab.benchmarks.settings import NAMES, Name, at_full_size, named_config
from looplab.conf.compose import commands
from looplab.training.assemble import build_curriculum, build_task

WORDS = {
    "linear": ["scale=paper", "task=linear"],
    "sparse": ["scale=paper", "task=sparse_linear"],
    "tree": ["scale=paper", "task=decision_tree"],
    "relu": ["scale=paper", "task=relu_network"],
    "standard": ["scale=paper", "task=linear", "model=standard"],
    "small": ["scale=small", "task=sparse_linear"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_what_the_command_line_composes(name: Name) -> None:
    assert named_config(name) == commands([*WORDS[name], "recipe=paper"])[0].config


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("sparse", (20, 41, 20, 10, 10, 20)),
        ("tree", (20, 101, 70, 15, 15, 70)),
        ("small", (8, 17, 6, 5, 5, 6)),
    ],
)
def test_full_size_is_the_curriculums_end(name: Name, stage: tuple[int, ...]) -> None:
    config = at_full_size(named_config(name))
    assert astuple(build_curriculum(config, build_task(config))(0)) == stage
