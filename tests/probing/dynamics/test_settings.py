"""How far a run is followed, and what cannot be asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, LoopsConfig, ModelConfig
from looplab.probing.settings import DynamicsSettings
from looplab.training.run_folder.run import RunFolder

STANDARD = ModelConfig("standard", n_layer=3, n_embd=16, n_head=2, injection="none")


@pytest.mark.parametrize(("b", "loops"), [(12, 100), (20, 100), (21, 105), (70, 350)])
def test_a_loop_is_followed_to_a_hundred_or_five_times_b(b: int, loops: int) -> None:
    config = Config(loops=LoopsConfig(b=b, T=5))
    assert DynamicsSettings().loops_of(config) == loops
    assert DynamicsSettings(loops=7).loops_of(config) == 7
    # Three layers that are repeated are a loop all the same.
    assert DynamicsSettings().loops_of(replace(config, model=ModelConfig("tied", 3))) == loops


def test_a_standard_model_is_followed_to_its_last_layer(tmp_path: Path) -> None:
    config = Config(model=STANDARD)
    assert DynamicsSettings().loops_of(config) == 3
    RunFolder(tmp_path).create(config)
    for loops in (2, 3, None):
        DynamicsSettings(str(tmp_path), loops=loops).check()
    with pytest.raises(ConfigError, match="is 4, but this standard model has 3 layers"):
        DynamicsSettings(str(tmp_path), loops=4).check()


def test_lanes_are_followed_as_far_as_they_have_weights() -> None:
    model = ModelConfig(n_embd=16, n_head=2, injection="none", lanes=2)
    config = Config(model=model, loops=LoopsConfig(b=6, T=6))
    assert DynamicsSettings().loops_of(config) == 6
    assert DynamicsSettings(loops=4).loops_of(config) == 4
    with pytest.raises(ConfigError, match="is 7, but this model has weights of lanes for 6 and"):
        DynamicsSettings(loops=7).loops_of(config)
