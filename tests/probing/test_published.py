"""Which runs published probe errors stand beside."""

from dataclasses import replace
from typing import Any

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.probing.probe import published

LOOPED = Config(task=TaskConfig("linear"), loops=LoopsConfig(20, 15))
STANDARD = replace(LOOPED, model=ModelConfig("standard", n_layer=20, injection="none"))
TARGETS = ["gradient", "least_squares"]


def by_target(config: Config, layers: int = 21) -> dict[str, dict[str, Any]]:
    return {entry["target"]: entry for entry in published(config, layers)}


def test_a_run_under_the_papers_settings_gets_its_models_curves() -> None:
    assert list(by_target(LOOPED)) == list(by_target(STANDARD)) == TARGETS
    entry = by_target(LOOPED)["gradient"]
    assert entry["label"] == "looped, b = 20, T = 15"
    assert by_target(STANDARD)["gradient"]["label"] == "standard, 20 layers"
    assert (entry["steps"], entry["prompts"], entry["training_steps"]) == (100_000, 1280, 500_000)
    assert "2311.12424" in entry["source"]
    # What a standard model does not use has no part in the comparison.
    assert list(by_target(replace(STANDARD, loops=LoopsConfig(7, 3)))) == TARGETS
