"""Published numbers: that the file is whole, and which runs they can stand beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.evaluation.published import published

LINEAR = Config(task=TaskConfig("linear"))
SPARSE = Config(task=TaskConfig("sparse_linear"), loops=LoopsConfig(20, 10))
RELU = Config(task=TaskConfig("relu_network", points=101), loops=LoopsConfig(12, 5))
STANDARD = ModelConfig("standard", n_layer=12, injection="none")
SOLVERS = ["least_squares", "nearest_neighbours", "averaging"]


def names(config: Config) -> list[str]:
    return [entry["name"] for entry in published(config)]


def curve(config: Config, name: str) -> dict[str, Any]:
    (entry,) = [entry for entry in published(config) if entry["name"] == name]
    return entry


def test_a_run_under_the_papers_settings_gets_its_model_and_the_baselines() -> None:
    assert names(LINEAR) == ["model", *SOLVERS]
    assert names(SPARSE) == ["model", *SOLVERS, "lasso"]
    assert names(RELU) == ["model"]
    model = curve(SPARSE, "model")
    assert (model["label"], model["loops"]) == ("looped, b = 20, T = 10, 500 loops", 500)
    assert (model["training_steps"], model["prompts"]) == (500_000, 1280)
    solver = curve(SPARSE, "lasso")
    assert "loops" not in solver
    assert solver["prompts"] == 1280
    assert "Figures_Sparse_LR.ipynb" in solver["source"]
    assert solver["rounding"] == "5 significant digits"


@pytest.mark.parametrize(
    "other",
    [
        replace(LINEAR, loops=LoopsConfig(30, 15)),
        replace(LINEAR, model=ModelConfig(n_embd=128)),
        replace(LINEAR, model=ModelConfig("tied", injection="none")),
        replace(LINEAR, model=replace(STANDARD, n_layer=8)),
    ],
    ids=lambda config: f"{config.model.family}-{config.loops}",
)
def test_another_model_gets_the_baselines_alone(other: Config) -> None:
    assert names(other) == SOLVERS


def test_least_squares_is_printed_over_the_variance_of_y() -> None:
    """Of a minimum-norm fit of k < d noiseless examples (d - k)/d of the variance is left; half of
    a 90 % interval is 1.64 standard errors, and five of them are allowed."""
    entry = curve(LINEAR, "least_squares")
    assert entry["low"] is not None
    assert entry["high"] is not None
    parts = (entry["mean"], entry["low"], entry["high"])
    mean, low, high = (np.array(values[:20]) for values in parts)
    expected = 1 - np.arange(20) / 20
    assert (np.abs(mean - expected) < 5 * (high - low) / (2 * 1.64)).all()
