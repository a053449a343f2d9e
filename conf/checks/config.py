"""Checks of names, values and their combinations, without torch."""

from __future__ import annotations

import math
from typing import Any

from ..mistakes import ConfigError, check_count, check_path
from ..schema import Config, GrowthConfig, TrainingConfig
from ..setting import check_settings
from .language import check_text
from .loops import loop_mistakes
from .model import check_model, check_prompts_fit
from .task_settings import typed_settings

_BAYES = ("linear", "noisy_linear", "sparse_linear")  # tasks with a known Bayes predictor
MOST_SUPPORTS = 100_000  # of a sparse function that the Bayes predictor sums over


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
    check_text(config)
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
