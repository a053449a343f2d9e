"""The settings of the benchmarks, by name, read from conf/ without Hydra."""

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
_RECIPE = "paper"  # steps are measured, not their number


def setting(name: str) -> Config:
    """What `python run.py task=… model=… scale=… recipe=paper` composes for the setting; KeyError
    for a name that is not in NAMES."""
    scale, task, model = _NAMED[name]
    task_values = _read(f"task/{task}.yaml")
    mapping = config_to_mapping(Config())
    _merge(mapping, {"task": task_values, "model": _read(f"model/{model}.yaml")})
    _merge(mapping, _read(f"scale/{scale}.yaml"))
    _merge(mapping, _read(f"scale/{scale}/{task}.yaml"))
    _merge(mapping, _read(f"recipe/{_RECIPE}.yaml"))
    _merge(mapping, _read(f"recipe/by_scale/{_RECIPE}-{scale}.yaml"))
    _merge(mapping, _read(f"recipe/by_task/{_RECIPE}-{scale}-{task}.yaml"))
    values = mapping["task"]
    values["settings"] = {key: values.pop(key) for key in task_values if key != "name"}
    return config_from_mapping(mapping)


def at_full_size(config: Config) -> Config:
    """The same with the curriculum at its end from the first step (most steps of a run are there),
    and with enough steps that no measurement reaches the rate's decay."""
    loops = GrowthConfig(start=config.loops.b)
    return replace(
        config,
        curriculum=CurriculumConfig(GrowthConfig(), GrowthConfig(), loops),
        training=replace(config.training, steps=500_000),
    )


def _read(name: str) -> dict[str, Any]:
    """A file of conf/; empty if there is none."""
    path = _FOLDER / name
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {} if path.exists() else {}


def _merge(mapping: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            _merge(mapping.setdefault(key, {}), value)
        else:
            mapping[key] = value
