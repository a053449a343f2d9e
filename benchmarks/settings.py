"""The settings of the benchmarks, by name, read from conf/ without Hydra."""

from __future__ import annotations

from dataclasses import replace

from reloop.conf.compose import command_of
from reloop.conf.schema import Config, CurriculumConfig, GrowthConfig

# Name: scale, task and model. `standard` is the 12-layer model at the linear task's size.
_NAMED = {
    "linear": ("paper", "linear", "looped"),
    "sparse": ("paper", "sparse_linear", "looped"),
    "tree": ("paper", "decision_tree", "looped"),
    "relu": ("paper", "relu_network", "looped"),
    "standard": ("paper", "linear", "standard"),
    "small": ("small", "sparse_linear", "looped"),
}
NAMES = tuple(_NAMED)


def setting(name: str) -> Config:
    """What `python run.py task=… model=… scale=… recipe=paper` composes for the setting; KeyError
    for a name that is not in NAMES."""
    scale, task, model = _NAMED[name]
    # Steps are measured, not their number: the recipe does not matter.
    groups = {"scale": scale, "task": task, "model": model, "recipe": "paper"}
    return command_of(groups).config


def at_full_size(config: Config) -> Config:
    """The same with the curriculum at its end from the first step (most steps of a run are there),
    and with enough steps that no measurement reaches the rate's decay."""
    loops = GrowthConfig(start=config.loops.b)
    return replace(
        config,
        curriculum=CurriculumConfig(GrowthConfig(), GrowthConfig(), loops),
        training=replace(config.training, steps=500_000),
    )
