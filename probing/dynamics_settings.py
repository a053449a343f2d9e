"""What `python -m probing.dynamics` is asked for, checked against the run. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from conf.build import read_config
from conf.checks import ConfigError
from conf.schema import Config


@dataclass(frozen=True)
class DynamicsSettings:
    """The run folder, and how its states are followed."""

    run: str
    loops: int | None = None  # none: the greater of 100 and 5 b; a standard model's are its layers
    prompts: int = 64
    seed: int = 2024  # of the prompts, the resamples and where power iteration begins
    device: str = "auto"


def resolved(settings: DynamicsSettings) -> tuple[DynamicsSettings, Config]:
    """The settings with their loops filled in, and the configuration of the run. Raises ConfigError
    for a folder that is no run, and for what cannot be measured of it."""
    config = read_config(Path(settings.run))
    layers = config.model.n_layer if config.model.family == "standard" else None
    if settings.loops is None:
        settings = replace(settings, loops=layers or max(100, 5 * config.loops.b))
    elif layers is not None and settings.loops > layers:
        raise ConfigError(
            "loops", f"is {settings.loops}, but this standard model has {layers} layers and no more"
        )
    else:
        _at_least("loops", settings.loops, 2)
    _at_least("prompts", settings.prompts, 2)
    _at_least("seed", settings.seed, 0)
    return settings, config


def _at_least(key: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(key, f"must be at least {least}, got {value}")
