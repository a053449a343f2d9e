"""Published numbers: that the file is whole, and which runs they can stand beside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from looplab.conf.schema import Baseline, Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.evaluation import published as module
from looplab.evaluation.published import published
from looplab.tasks import make_task

FILE = json.loads(Path(module.__file__).with_suffix(".json").read_text("utf-8"))
CURVES = [(result, curve) for result in FILE["results"] for curve in result["curves"]]
LINEAR = Config(task=TaskConfig("linear"))
SPARSE = Config(task=TaskConfig("sparse_linear"), loops=LoopsConfig(20, 10))
RELU = Config(task=TaskConfig("relu_network", points=101), loops=LoopsConfig(12, 5))
STANDARD = ModelConfig("standard", n_layer=12, injection="none")
SOLVERS = ["least_squares", "nearest_neighbours", "averaging"]


def names(config: Config) -> list[str]:
    return [entry["name"] for entry in published(config)]


def loops_of(config: Config) -> list[int]:
    return [entry["loops"] for entry in published(config) if "loops" in entry]


def curve(config: Config, name: str) -> dict[str, Any]:
    (entry,) = [entry for entry in published(config) if entry["name"] == name]
    return entry


@pytest.mark.parametrize(("result", "curve"), CURVES)
def test_a_curve_is_whole(result: dict[str, Any], curve: dict[str, Any]) -> None:
    points = result["task"]["points"]
    assert len(curve["mean"]) == points
    assert all(value > 0 for value in curve["mean"])
    assert ("low" in curve) == ("high" in curve) == (result["task"]["name"] != "relu_network")
    if "low" in curve:
        assert len(curve["low"]) == len(curve["high"]) == points
        for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True):
            assert low <= mean <= high
    assert curve["label"]
    assert curve["name"] == "model" or curve["name"] in get_args(Baseline)
    assert (
        ("model" in curve) == ("loops" in curve) == ("run" in curve) == (curve["name"] == "model")
    )


@pytest.mark.parametrize(("result", "curve"), CURVES)
def test_numbers_have_the_digits_that_the_file_says(
    result: dict[str, Any], curve: dict[str, Any]
) -> None:
    significant = curve["rounding"] == "5 significant digits"
    assert significant or curve["rounding"] == "4 decimals"
    for part in ("mean", "low", "high"):
        values = curve.get(part, [])
        assert values == [float(f"{x:.4e}" if significant else f"{x:.4f}") for x in values]


@pytest.mark.parametrize("result", FILE["results"])
def test_a_result_has_a_source_and_a_protocol(result: dict[str, Any]) -> None:
    task = result["task"]
    divisor = make_task(task["name"], task["dims"], settings=task["settings"]).divisor
    assert result["divisor"] == divisor
    assert "2311.12424" in result["source"]
    assert ".ipynb, cell" in result["source"]
    assert result["protocol"]["prompts"] == 1280
    assert result["protocol"]["training_steps"] == 500_000


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


def test_a_standard_models_layers_are_its_loops() -> None:
    for config in (LINEAR, SPARSE, RELU):
        standard = replace(config, model=STANDARD)
        assert curve(standard, "model")["label"] == "standard, 12 layers"
        assert loops_of(standard) == [12]
        # What it does not use has no part in the comparison.
        unused = replace(
            standard, loops=LoopsConfig(7, 3), model=replace(STANDARD, injection="add")
        )
        assert loops_of(unused) == [12]


@pytest.mark.parametrize(
    "other",
    [
        replace(LINEAR, loops=LoopsConfig(30, 15)),
        replace(LINEAR, model=ModelConfig(n_layer=2)),
        replace(LINEAR, model=ModelConfig(n_embd=128)),
        replace(LINEAR, model=ModelConfig(n_head=4)),
        replace(LINEAR, model=ModelConfig(injection="multiply")),
        replace(LINEAR, model=ModelConfig("tied", injection="none")),
        replace(LINEAR, model=replace(STANDARD, n_layer=8)),
    ],
    ids=lambda config: f"{config.model.family}-{config.loops}",
)
def test_another_model_gets_the_baselines_alone(other: Config) -> None:
    assert names(other) == SOLVERS


@pytest.mark.parametrize("config", [LINEAR, SPARSE, RELU], ids=lambda config: config.task.name)
def test_b_and_the_window_must_be_the_papers(config: Config) -> None:
    b, T = config.loops.b, config.loops.T
    assert loops_of(config) == [500]
    for loops in (LoopsConfig(b + 1, T), LoopsConfig(b, T - 1)):
        assert loops_of(replace(config, loops=loops)) == []


@pytest.mark.parametrize(
    "task",
    [
        TaskConfig("sparse_linear", dims=10),
        TaskConfig("sparse_linear", points=21),
        TaskConfig("sparse_linear", distinct_prompts=1000),
        TaskConfig("sparse_linear", settings={"sparsity": 6}),
        TaskConfig("noisy_linear"),
        TaskConfig("decision_tree", points=101),
        TaskConfig("relu_network", points=101, settings={"hidden": 50}),
    ],
    ids=str,
)
def test_another_task_gets_nothing(task: TaskConfig) -> None:
    for loops in (LoopsConfig(20, 10), LoopsConfig(12, 5), LoopsConfig(70, 15)):
        assert published(Config(task=task, loops=loops)) == []


def test_settings_written_out_are_the_defaults() -> None:
    written = replace(SPARSE, task=replace(SPARSE.task, settings={"sparsity": 3}))
    assert published(written) == published(SPARSE)


@pytest.mark.parametrize(
    ("config", "name", "printed"),
    [
        (LINEAR, "model", {0: 1.06, 10: 0.519, 20: 0.0242, 40: 7.8e-4}),
        (
            replace(LINEAR, model=STANDARD),
            "model",
            {0: 1.06, 15: 0.247, 20: 0.0204, 40: 4.8e-4},
        ),
        (LINEAR, "least_squares", {5: 0.765, 19: 0.048, 25: 2.3e-13, 40: 1.0e-13}),
        (LINEAR, "nearest_neighbours", {5: 1.22, 10: 0.904, 40: 0.71}),
        (LINEAR, "averaging", {5: 4.63, 10: 2.04, 40: 0.525}),
        (SPARSE, "model", {5: 0.599, 10: 0.0213, 15: 0.00368, 40: 6.1e-4}),
        (replace(SPARSE, model=STANDARD), "model", {5: 0.584, 10: 0.0848, 40: 0.0017}),
        (SPARSE, "least_squares", {10: 0.457, 19: 0.0439, 40: 8.2e-14}),
        (SPARSE, "lasso", {5: 0.645, 10: 0.0498, 20: 2.3e-4, 40: 1.3e-4}),
        (RELU, "model", {0: 1.018, 1: 0.880, 2: 0.796, 3: 0.705, 100: 0.180}),
        (replace(RELU, model=STANDARD), "model", {0: 1.02, 1: 0.875, 2: 0.793, 3: 0.704}),
    ],
)
def test_known_values(config: Config, name: str, printed: dict[int, float]) -> None:
    mean = curve(config, name)["mean"]
    assert {k: mean[k] for k in printed} == {
        k: pytest.approx(v, rel=0.02) for k, v in printed.items()
    }


def test_the_papers_own_numbers_are_the_ends_of_the_curves() -> None:
    ends = {"model": 6.12e-4, "least_squares": 8.21e-14, "lasso": 1.32e-4}
    for name, value in ends.items():
        entry = curve(SPARSE, name)
        assert entry["in_paper"] == {"40": value}
        assert float(f"{entry['mean'][40]:.2e}") == value
    assert curve(replace(SPARSE, model=STANDARD), "model")["in_paper"] == {"40": 1.7e-3}
    assert "in_paper" not in curve(LINEAR, "model")


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
