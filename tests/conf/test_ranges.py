"""Settings of training and evaluation out of range, and what a comparison takes from its words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from reloop.conf.checks.config import check_config
from reloop.conf.compose import commands
from reloop.conf.help import help_text
from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import (
    Baseline,
    Config,
    EvaluationConfig,
    ModelConfig,
    Shift,
    TaskConfig,
    TrainingConfig,
)
from reloop.training.run_folder.run import RunFolder
from tests.conftest import tiny_config

BAYES = EvaluationConfig(baselines=("bayes",))


@pytest.mark.parametrize("name", ["decision_tree", "relu_network"])
def test_bayes_is_for_linear_functions_alone(name: str) -> None:
    with pytest.raises(ConfigError, match="not known"):
        check_config(Config(task=TaskConfig(name), evaluation=BAYES))
    for known in ("linear", "noisy_linear", "sparse_linear"):
        check_config(Config(task=TaskConfig(known), evaluation=BAYES))


@pytest.mark.parametrize("change", [{"max_loops": 0}, {"tolerance": float("inf")}])
def test_ranges(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"evaluation.{next(iter(change))} must be"):
        check_config(Config(evaluation=EvaluationConfig(**change)))


@pytest.mark.parametrize(
    "change",
    [
        *({"optimizer": name} for name in ("sgd", "")),
        *({"learning_rate": value} for value in (0.0, -1.0, float("inf"), float("nan"))),
        *({"muon_rate": value} for value in (0.0, -1.0, float("inf"), float("nan"))),
        *({"epsilon": value} for value in (0.0, -1.0, float("inf"), float("nan"))),
        *({"decay_to": value, "decay": 0.5} for value in (-0.1, 1.1, float("nan"))),
        {"decay_to": 0.1},
    ],
)
def test_ranges_of_the_optimiser(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as mistake:
        check_config(Config(training=TrainingConfig(**change)))
    assert mistake.value.key == f"training.{next(iter(change))}"


@pytest.mark.parametrize(
    "change",
    [
        *({"optimizer": name} for name in ("adam", "adamw", "muon")),
        *({"decay_to": value, "decay": 1.0} for value in (0.0, 1.0)),
        {"epsilon": 1e-10, "muon_rate": 3.0, "optimizer": "muon", "learning_rate": 2.0},
    ],
)
def test_what_is_in_range(change: dict[str, Any]) -> None:
    check_config(Config(training=TrainingConfig(**change)))


def test_a_comparison_may_hold_a_standard_run_and_goes_where_it_is_told(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    standard = replace(
        config,
        model=ModelConfig(
            "standard", n_layer=2, n_embd=16, n_head=2, n_positions=7, injection="none"
        ),
    )
    for name, each in (("a", standard), ("b", config)):
        RunFolder(tmp_path / name).create(each)
    words = [
        f"runs=[{tmp_path}/a,{tmp_path}/b]",
        "evaluation.loops=9",
        "folder=elsewhere",
        "device=cpu",
    ]
    (command,) = commands(["action=compare", *words])
    assert (command.config.folder, command.config.device) == ("elsewhere", "cpu")
    assert command.config.evaluation.loops == 9


def test_help_names_every_shift_and_solver() -> None:
    words = set(re.findall(r"[\w.]+", help_text()))
    assert set(get_args(Shift)) <= words | {"all"}
    assert set(get_args(Baseline)) <= words
