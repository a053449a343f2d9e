"""The settings that are measured, by name, read from conf/ without Hydra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from reloop import conf
from reloop.conf.build import config_from_mapping, config_to_mapping
from reloop.conf.schema import Config, CurriculumConfig, GrowthConfig

_FOLDER = Path(conf.__file__).parent
# Name: scale, task and model. `standard` stands for the 12-layer model at the linear task's size.
_NAMED = {
    "linear": ("paper", "linear", "looped"),
    "sparse": ("paper", "sparse_linear", "looped"),
    "tree": ("paper", "decision_tree", "looped"),
    "relu": ("paper", "relu_network", "looped"),
    "standard": ("paper", "linear", "standard"),
    "small": ("small", "sparse_linear", "looped"),
}
NAMES = tuple(_NAMED)
_RECIPE = "paper"  # how fast a step is, not how few there are


def setting(name: str) -> Config:
    """What `python run.py task=… model=… scale=… recipe=paper` composes for the setting; KeyError
    for a name that is not in NAMES."""
    scale, task, model = _NAMED[name]
    own = _read(f"task/{task}.yaml")
    mapping = config_to_mapping(Config())
    _merge(mapping, {"task": own, "model": _read(f"model/{model}.yaml")})
    _merge(mapping, _read(f"scale/{scale}.yaml"))
    _merge(mapping, _read(f"scale/{scale}/{task}.yaml"))
    _merge(mapping, _read(f"recipe/{_RECIPE}.yaml"))
    _merge(mapping, _read(f"recipe/by_scale/{_RECIPE}-{scale}.yaml"))
    _merge(mapping, _read(f"recipe/by_task/{_RECIPE}-{scale}-{task}.yaml"))
    values = mapping["task"]
    values["settings"] = {key: values.pop(key) for key in own if key != "name"}
    return config_from_mapping(mapping)


def at_full_size(config: Config) -> Config:
    """The same from the first step at the curriculum's end, where most of a run is spent, and with
    steps enough that no measurement reaches the rate's decay."""
    loops = GrowthConfig(start=config.loops.b)
    return replace(
        config,
        curriculum=CurriculumConfig(GrowthConfig(), GrowthConfig(), loops),
        training=replace(config.training, steps=500_000),
    )


def _read(name: str) -> dict[str, Any]:
    """A file of conf/; empty where there is none."""
    path = _FOLDER / name
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {} if path.exists() else {}


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
