"""Published probe errors: that the file is whole, which runs they stand beside, and that they are
shown there."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.evaluation.bootstrap import numbers
from looplab.probing import probe as probe_module
from looplab.probing.probe import panels, probe, published, table
from looplab.probing.settings import ProbingSettings
from looplab.training import train
from tests.conftest import tiny_config

FILE = json.loads(Path(probe_module.__file__).with_name("published.json").read_text("utf-8"))
CURVES = [(result, curve) for result in FILE["results"] for curve in result["curves"]]
LOOPED = Config(task=TaskConfig("linear"), loops=LoopsConfig(20, 15))
STANDARD = replace(LOOPED, model=ModelConfig("standard", n_layer=20, injection="none"))
TARGETS = ["gradient", "least_squares"]
SETTINGS = ProbingSettings(
    run="given",
    protocol="reference",
    steps=2,
    batch_size=8,
    prompts=20,
    resamples=5,
    seeds=1,
    device="cpu",
)


def by_target(config: Config, layers: int = 21) -> dict[str, dict[str, Any]]:
    return {entry["target"]: entry for entry in published(config, layers)}


def test_two_models_have_two_curves_each() -> None:
    """With the sums of what is printed, so that no number in between is another."""
    sums = {
        (curve["model"]["family"], curve["target"]): round(sum(curve["mean"]), 4)
        for _, curve in CURVES
    }
    assert sums == {
        ("looped", "gradient"): 9.2749,
        ("standard", "gradient"): 11.1541,
        ("looped", "least_squares"): 7.8527,
        ("standard", "least_squares"): 9.373,
    }
    assert len(CURVES) == 4


@pytest.mark.parametrize(
    ("config", "target", "printed"),
    [
        (LOOPED, "gradient", {0: 0.5814, 9: 0.4285, 10: 0.4211, 12: 0.3866, 20: 0.3596}),
        (STANDARD, "gradient", {0: 0.5856, 1: 0.6121, 7: 0.4292, 12: 0.5086, 20: 0.6191}),
        (LOOPED, "least_squares", {0: 0.4966, 10: 0.3358, 20: 0.2983}),
        (STANDARD, "least_squares", {0: 0.4932, 10: 0.3363, 20: 0.5223}),
    ],
)
def test_known_values_over_d(config: Config, target: str, printed: dict[int, float]) -> None:
    mean = by_target(config)[target]["mean"]
    assert {t: mean[t] for t in printed} == {
        t: pytest.approx(value / 20) for t, value in printed.items()
    }


@pytest.mark.parametrize("config", [LOOPED, STANDARD], ids=lambda config: config.model.family)
def test_the_read_in_tells_a_little_of_each_target(config: Config) -> None:
    """Its errors are just under the variances of the targets as the protocol scales them, over the
    protocol's divisor: the units are the same."""
    lengths = np.arange(1, 42)
    variance = {
        "gradient": np.mean(lengths * (lengths + 21) / 41**2),
        "least_squares": np.mean(lengths[:20] / 20),
    }
    for name, entry in by_target(config).items():
        assert entry["mean"][0] is not None
        assert 0.9 < entry["mean"][0] * 20 / variance[name] < 1


def test_a_run_under_the_papers_settings_gets_its_models_curves() -> None:
    assert list(by_target(LOOPED)) == list(by_target(STANDARD)) == TARGETS
    entry = by_target(LOOPED)["gradient"]
    assert entry["label"] == "looped, b = 20, T = 15"
    assert by_target(STANDARD)["gradient"]["label"] == "standard, 20 layers"
    assert (entry["steps"], entry["prompts"], entry["training_steps"]) == (100_000, 1280, 500_000)
    assert "2311.12424" in entry["source"]
    # What a standard model does not use has no part in the comparison.
    assert list(by_target(replace(STANDARD, loops=LoopsConfig(7, 3)))) == TARGETS


@pytest.mark.parametrize(
    "other",
    [
        replace(LOOPED, loops=LoopsConfig(21, 15)),
        replace(LOOPED, model=ModelConfig(injection="multiply")),
        replace(LOOPED, model=ModelConfig("tied", injection="none")),
        replace(STANDARD, model=replace(STANDARD.model, n_layer=12)),
        replace(LOOPED, task=TaskConfig("linear", dims=10)),
        replace(LOOPED, task=TaskConfig("linear", distinct_prompts=1000)),
        replace(LOOPED, task=TaskConfig("noisy_linear")),
    ],
    ids=lambda config: f"{config.model.family}-{config.task.name}",
)
def test_another_task_or_model_gets_none(other: Config) -> None:
    assert published(other, 21) == []


def test_a_curve_is_as_long_as_what_it_stands_beside() -> None:
    whole = by_target(LOOPED)["gradient"]["mean"]
    assert len(whole) == 21
    assert by_target(LOOPED, layers=11)["gradient"]["mean"] == whole[:11]
    assert by_target(LOOPED, layers=24)["gradient"]["mean"] == [*whole, None, None, None]


def test_a_probing_keeps_and_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In probing.json, the table and the picture's values: as many as there are loops probed, and
    for the targets asked for alone."""
    shared = {"label": "theirs", "rounding": "1 decimal", "model": {"family": "looped", "b": 4}}
    task = {"name": "linear", "dims": 3, "points": 7, "settings": {}}
    protocol = {"name": "reference", "steps": 90, "prompts": 50, "training_steps": 6000}
    curves = [
        {"target": name, "mean": [0.9, 0.6, 0.3, 1.2, 1.5], **shared}
        for name in ("gradient", "weights")
    ]
    path = tmp_path / "published.json"
    results = [{"task": task, "protocol": protocol, "source": "a paper", "curves": curves}]
    path.write_text(json.dumps({"results": results}))
    monkeypatch.setattr("looplab.probing.probe._PUBLISHED", path)
    config = tiny_config(tmp_path)
    run = train(replace(config, task=TaskConfig("linear", dims=3, points=7)))
    result = probe(run, replace(SETTINGS, loops=6))
    shown = json.loads((run.path / "probing.json").read_text())
    assert {key: shown[key] for key in result} == result
    assert list(result["targets"]) == TARGETS
    means = result["targets"]["gradient"]["published"]["mean"]
    assert means[:5] == pytest.approx([0.3, 0.2, 0.1, 0.4, 0.5])
    assert means[5:] == [None, None]
    assert "published" not in result["targets"]["least_squares"]
    with open(run.path / "probing/figures/gradient_by_layer.csv", encoding="utf-8") as file:
        shown = [row["published-theirs_mean"] for row in csv.DictReader(file)]
    assert shown == [*map(str, means[:5]), "", ""]
    assert table(result).count("published: theirs, after 6,000 steps") == 1


def test_table_and_picture_show_them_beside_ours() -> None:
    result = by_hand()
    head, columns, *rows, note = table(result).splitlines()
    assert head == "mean squared error / d of XᵀY / n: mean over lengths 1 to 2"
    assert columns.split()[6:9] == ["linear", "published", "1-R²,"]
    printed = [f"{value / 20:.3g}" for value in (0.5814, 0.565, 0.5521)]
    assert [row.split()[-3] for row in rows] == printed
    for said in ("500,000", "100,000", "1280 prompts", "4 decimals, before", "2311.12424"):
        assert said in note
    panel, _ = panels(result)
    assert (panel.name, panel.y_label) == ("gradient_by_layer", "mean squared error / d of XᵀY / n")
    (curve,) = [curve for curve in panel.curves if curve.kind == "published"]
    assert curve.label == "published: looped, b = 20, T = 15"
    np.testing.assert_allclose(numbers(curve.mean) * 20, [0.5814, 0.565, 0.5521])
    assert list(panel.x) == [0, 1, 2]


def test_without_any_nothing_is_said_of_them() -> None:
    result = by_hand()
    del result["targets"]["gradient"]["published"]
    result["settings"]["protocol"] = "paper"
    text = table(result)
    assert "published" not in text
    assert text.startswith("mean squared error of XᵀY: mean over lengths 1 to 2\n")
    assert [curve.name for curve in panels(result)[0].curves] == ["probe", "linear"]


def by_hand() -> Any:
    """A probing of two loops and two lengths."""
    curve = {"mean": [0.03, 0.02, 0.01], "low": [0.02, 0.01, 0.005], "high": [0.04, 0.03, 0.02]}
    target = {
        "label": "XᵀY",
        "lengths": [1, 2],
        "error": curve,
        "linear": curve,
        "seed_spread": [None, None, None],
        "variance": [0.02, 0.04],
        "by_length": {part: [[0.018, 0.032]] * 3 for part in ("mean", "low", "high")},
        "unexplained": [[0.9, 0.8]] * 3,
        "learning": {"until_step": [10, 20], "error": [[0.9, 0.8, 0.7], [0.8, 0.7, 0.6]]},
        "published": by_target(LOOPED, layers=3)["gradient"],
    }
    return {
        "task": "linear",
        "family": "looped",
        "style": "looped",
        "dims": 20,
        "b": 20,
        "settings": {"protocol": "reference", "prompts": 1280},
        "targets": {"gradient": target},
    }
