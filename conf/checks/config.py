"""Checks of names, values, their combinations and sizes, without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from ..mistakes import ConfigError, check_count, check_path, nearest
from ..plugins import added_tasks
from ..schema import Config, GrowthConfig, TrainingConfig
from ..setting import check_settings, convert_scalar
from .loops import loop_mistakes
from .model import check_model, check_prompts_fit

_BAYES = ("linear", "noisy_linear", "sparse_linear")  # tasks with a known Bayes predictor
MOST_SUPPORTS = 100_000  # of a sparse function that the Bayes predictor sums over
_OF_TEXTS = {  # settings of texts alone
    "model": ("tied_head", "softcap"),
    "training": ("embedding_std", "head_std", "embedding_rate", "head_rate"),
}
_TASKS = Path(__file__).parents[1] / "task"  # a file each


def check_setting(key: str, value: Any) -> None:
    """Check one setting of a task: a whole number is at least 1 (`distinct_prompts` and
    `distinct_functions` may be 0, for no limit), any other number is finite and not negative, the
    path of a folder is not empty. Raises ConfigError."""
    if isinstance(value, str) and key.endswith("_dir"):
        check_path(key, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    least = 1 if isinstance(value, int) and "distinct_" not in key else 0
    check_count(key, value, least)


def check_config(config: Config) -> None:
    """Ranges and combinations; raises ConfigError for the first that cannot run."""
    _check_task(config)
    check_model(config.model)
    check_prompts_fit(config.model, config.task)
    _check_text(config)
    _check_curriculum(config)
    _check_training(config)
    check_settings("evaluation.", config.evaluation)
    if "bayes" in (config.evaluation.baselines or ()):
        _check_bayes(config)
    check_settings("", config)


def _check_task(config: Config) -> None:
    task = config.task
    typed_settings(task.name, task.settings)
    check_settings("task.", task)
    for key, value in task.settings.items():
        check_setting(f"task.{key}", value)
    if task.distinct_functions and (task.distinct_prompts or task.name == "tables"):
        other = "task.distinct_prompts" if task.distinct_prompts else "task=tables"
        raise ConfigError("task.distinct_functions", f"has no meaning with {other}")
    if task.settings.get("condition", 1) < 1:
        raise ConfigError("task.condition", f"must be at least 1, got {task.settings['condition']}")
    if task.settings.get("sparsity", 1) > task.dims:
        sparsity = task.settings["sparsity"]
        raise ConfigError("task.sparsity", f"is {sparsity}, but there are {task.dims} dims")


def _check_text(config: Config) -> None:
    """Raises ConfigError for a setting of texts with another task, and the other way round."""
    if config.task.is_text:
        _check_settings_of_text(config)
        return
    for group, names in _OF_TEXTS.items():
        settings = getattr(config, group)
        for name in names:
            if getattr(settings, name) != getattr(type(settings), name):
                raise ConfigError(f"{group}.{name}", f"has no meaning with task={config.task.name}")


def _check_settings_of_text(config: Config) -> None:
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


def _check_curriculum(config: Config) -> None:
    check_settings("loops.", config.loops)
    ends = {"dims": config.task.dims, "points": config.task.points, "loops": config.loops.b}
    for name, end in ends.items():
        growth: GrowthConfig = getattr(config.curriculum, name)
        key = f"curriculum.{name}"
        if not growth.intervals:
            raise ConfigError(f"{key}.intervals", "must hold at least one number of steps")
        check_settings(f"{key}.", growth)
        if growth.start is not None and growth.start > end:
            raise ConfigError(f"{key}.start", f"is {growth.start}, beyond the end of {end}")
    if mistake := next(loop_mistakes(config), None):
        raise ConfigError(*mistake)


def _check_training(config: Config) -> None:
    training = config.training
    check_settings("training.", training)
    if training.muon_rate != TrainingConfig.muon_rate and training.optimizer != "muon":
        raise ConfigError(
            "training.muon_rate", f"has no meaning with training.optimizer={training.optimizer}"
        )
    if training.muon_norm == "kept":
        if training.optimizer != "muon":
            raise ConfigError(
                "training.muon_norm", f"has no meaning with training.optimizer={training.optimizer}"
            )
        if config.model.block == "flt":
            raise ConfigError(
                "training.muon_norm",
                "cannot be kept: matrices of model.block=flt begin as zero, and would stay it "
                "(relu2 is like it, without zeros)",
            )
        if training.weight_decay:
            raise ConfigError(
                "training.weight_decay", "has no meaning with training.muon_norm=kept"
            )
    if training.decay_to and not training.decay:
        raise ConfigError(
            "training.decay_to",
            f"is {training.decay_to}, but the rate does not fall with training.decay=0",
        )
    if training.batch_size % training.shards:
        raise ConfigError(
            "training.shards",
            f"must divide training.batch_size={training.batch_size}, got {training.shards}",
        )
    if training.jacobian_penalty and (reason := _no_jacobian(config)):
        raise ConfigError("training.jacobian_penalty", reason)
    if beyond := [step for step in training.snapshots if step > training.steps]:
        raise ConfigError(
            "training.snapshots", f"cannot hold {beyond[0]}: there are {training.steps:,} steps"
        )


def _no_jacobian(config: Config) -> str:
    """Why no penalty on the loop's Jacobian can be computed; empty where it can."""
    model = config.model
    if model.family == "standard":
        return "has no meaning with model=standard: no layer is applied to its own output"
    if model.connectivity is not None or model.lanes or model.injection == "linear_attention":
        return "cannot be used here: the state of this loop is more than one stream"
    return ""


def _check_bayes(config: Config) -> None:
    task = config.task
    if task.name not in _BAYES:
        raise ConfigError(
            "evaluation.baselines", f"cannot hold bayes: for task={task.name} it is not known"
        )
    sparsity = task.settings.get("sparsity", task.dims)
    size = min(sparsity, task.dims - sparsity)  # above 20, there are billions
    supports = math.comb(task.dims, size) if size <= 20 else math.inf
    if supports > MOST_SUPPORTS:
        number = f"{supports:,}" if size <= 20 else "billions of"
        raise ConfigError(
            "evaluation.baselines",
            f"cannot hold bayes: it would go through {number} supports, more than "
            f"{MOST_SUPPORTS:,}",
        )


def task_names() -> list[str]:
    """The tasks that have a file."""
    return sorted(path.stem for path in _TASKS.glob("*.yaml"))


def own_settings(name: str) -> dict[str, Any] | None:
    """A task's own settings with their defaults: from its file, or from its class where it was
    registered outside the project; None for an unknown task."""
    defaults = _read(name) if name in task_names() else added_tasks().get(name)
    return deepcopy(defaults)


def typed_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A task's settings, each with the type of its default; settings left out stay out. Those of
    an unknown task are returned unchanged. ConfigError for an unknown setting and a value of
    another type."""
    defaults = own_settings(name)
    if defaults is None:
        return dict(settings)
    for key in settings:
        if key not in defaults:
            hint = nearest(str(key), defaults) if defaults else ", which has none of its own"
            raise ConfigError(f"task.{key}", f"is not a setting of task={name}{hint}")
    return {key: _typed(defaults[key], value, f"task.{key}") for key, value in settings.items()}


def _typed(default: Any, value: Any, key: str) -> Any:
    """`value` with the type of its default: a bool, a number, a name or a tuple of those."""
    if not isinstance(default, list):
        return convert_scalar(type(default), value, key)
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(convert_scalar(type(default[0]), item, key) for item in items)


@lru_cache
def _read(name: str) -> dict[str, Any]:
    values = yaml.safe_load((_TASKS / f"{name}.yaml").read_text(encoding="utf-8"))
    return {key: default for key, default in values.items() if key != "name"}
