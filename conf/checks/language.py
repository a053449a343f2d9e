"""Checks of settings that prompts of a text have, or have not, without torch."""

from __future__ import annotations

from os.path import normpath
from typing import Any

from ..mistakes import ConfigError
from ..schema import Config, ModelConfig, TaskConfig, TrainingConfig

_TEXT = "language"
_OF_TEXTS = {  # settings of texts alone, with the values that mean none
    "model": (("tied_head", ModelConfig.tied_head), ("softcap", ModelConfig.softcap)),
    "training": tuple(
        (name, getattr(TrainingConfig, name))
        for name in ("embedding_std", "head_std", "embedding_rate", "head_rate")
    ),
}


def is_text(task: TaskConfig) -> bool:
    """Whether prompts are tokens of a text, not pairs of numbers."""
    return task.name == _TEXT


def plain_paths(task: dict[str, Any]) -> None:
    """Write the paths among the settings of a text's task without `./` and `/` at the end, so that
    a run has one name however they were typed."""
    if task["name"] == _TEXT:
        for name in ("text", "held_out_text", "eval", "tokens"):
            if isinstance(path := task[name], str) and path:
                task[name] = normpath(path)


def check_text(config: Config) -> None:
    """Raises ConfigError for a setting of texts with another task, and the other way round."""
    if is_text(config.task):
        _check_text(config)
        return
    for group, settings in _OF_TEXTS.items():
        for name, default in settings:
            if getattr(getattr(config, group), name) != default:
                raise ConfigError(f"{group}.{name}", f"has no meaning with task={config.task.name}")


def _check_text(config: Config) -> None:
    if config.task.dims != 1:
        raise ConfigError("task.dims", "has no meaning with task=language: tokens are one number")
    if config.curriculum.dims.start not in (None, 1):
        raise ConfigError("curriculum.dims.start", "has no meaning with task=language")
    if config.model.injection == "linear_attention":
        raise ConfigError("model.injection", "cannot be linear_attention for a text")
    if config.model.tied_head and config.training.head_rate:
        raise ConfigError(
            "training.head_rate", "has no meaning with model.tied_head: the head is the embedding"
        )
    if config.evaluation.shifts:
        raise ConfigError("evaluation.shifts", "must be empty: a text has no shifted inputs")
