"""Which runs published numbers stand beside."""

from dataclasses import replace
from typing import Any

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
        replace(LINEAR, model=replace(STANDARD, n_layer=8)),
    ],
    ids=lambda config: f"{config.model.family}-{config.loops}",
)
def test_another_model_gets_the_baselines_alone(other: Config) -> None:
    assert names(other) == SOLVERS
