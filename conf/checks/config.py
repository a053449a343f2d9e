"""Checks of names, values and their combinations, without torch."""

from __future__ import annotations

import math
from typing import Any

from ..mistakes import (
    ConfigError,
    at_least,
    check_count,
    check_device,
    check_names,
    check_path,
    check_seed,
)
from ..schema import Config, GrowthConfig, TrainingConfig
from .loops import loop_mistakes
from .model import check_model
from .task_settings import typed_settings

_BAYES = ("linear", "noisy_linear", "sparse_linear")  # whose best predictor is known
MOST_SUPPORTS = 100_000  # of a sparse function that the best predictor goes through


def check_setting(key: str, value: Any) -> None:
    """One setting of a task: a whole number counts something (at least 1, but `distinct_prompts`
    may be 0, for no limit), any other is finite and not negative, and the path of a folder names
    one. Raises ConfigError."""
    if isinstance(value, str) and key.endswith("_dir"):
        check_path(key, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    least = 1 if isinstance(value, int) and not key.endswith("distinct_prompts") else 0
    check_count(key, value, least)


def check_config(config: Config) -> None:
    """Ranges and combinations; raises ConfigError for the first that cannot run."""
    _check_task(config)
    check_model(config.model, config.task)
    _check_curriculum(config)
    _check_training(config)
    _check_evaluation(config)
    check_seed("seed", config.seed)
    check_names("", config)
    check_path("folder", config.folder)
    check_device("device", config.device)


def _check_task(config: Config) -> None:
    task = config.task
    typed_settings(task.name, task.settings)
    check_setting("task.dims", task.dims)
    at_least("task.points", task.points, 2)
    check_setting("task.distinct_prompts", task.distinct_prompts)
    for key, value in task.settings.items():
        check_setting(f"task.{key}", value)
    if task.settings.get("sparsity", 1) > task.dims:
        sparsity = task.settings["sparsity"]
        raise ConfigError("task.sparsity", f"is {sparsity}, but there are {task.dims} dims")


def _check_curriculum(config: Config) -> None:
    at_least("loops.b", config.loops.b, 1)
    at_least("loops.T", config.loops.T, 1)
    ends = {"dims": config.task.dims, "points": config.task.points, "loops": config.loops.b}
    for name, end in ends.items():
        growth: GrowthConfig = getattr(config.curriculum, name)
        key = f"curriculum.{name}"
        at_least(f"{key}.inc", growth.inc, 1)
        if not growth.intervals:
            raise ConfigError(f"{key}.intervals", "must hold at least one number of steps")
        at_least(f"{key}.intervals", min(growth.intervals), 1)
        if growth.start is None:
            continue
        at_least(f"{key}.start", growth.start, 1)
        if growth.start > end:
            raise ConfigError(f"{key}.start", f"is {growth.start}, beyond the end of {end}")
    check_names("loops.", config.loops)
    if mistake := next(loop_mistakes(config), None):
        raise ConfigError(*mistake)


def _check_training(config: Config) -> None:
    training = config.training
    for name in ("batch_size", "shards", "checkpoint_every", "log_every"):
        check_count(f"training.{name}", getattr(training, name), 1)
    for name in ("steps", "warmup"):
        check_count(f"training.{name}", getattr(training, name), 0)
    for name in ("weight_decay", "clip", "decay", "decay_to", "beta1", "beta2", "ema_decay"):
        at_least(f"training.{name}", getattr(training, name), 0)
    check_names("training.", training)
    for name in ("learning_rate", "muon_rate", "epsilon", "init_std", "position_std"):
        value = getattr(training, name)
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"training.{name}", f"must be above 0 and finite, got {value}")
    for name, whole in (("decay", "the steps"), ("decay_to", "the rate")):
        if getattr(training, name) > 1:
            value = getattr(training, name)
            raise ConfigError(f"training.{name}", f"is a fraction of {whole}, got {value}")
    if training.muon_rate != TrainingConfig.muon_rate and training.optimizer != "muon":
        raise ConfigError(
            "training.muon_rate", f"has no meaning with training.optimizer={training.optimizer}"
        )
    if training.decay_to and not training.decay:
        raise ConfigError(
            "training.decay_to",
            f"is {training.decay_to}, but the rate does not fall with training.decay=0",
        )
    for name in ("beta1", "beta2", "ema_decay"):
        if getattr(training, name) >= 1:
            raise ConfigError(f"training.{name}", f"must be below 1, got {getattr(training, name)}")
    if training.batch_size % training.shards:
        raise ConfigError(
            "training.shards",
            f"must divide training.batch_size={training.batch_size}, got {training.shards}",
        )


def _check_evaluation(config: Config) -> None:
    evaluation = config.evaluation
    for name, least in (("prompts", 2), ("batch_size", 1), ("resamples", 1)):
        check_count(f"evaluation.{name}", getattr(evaluation, name), least)
    check_seed("evaluation.seed", evaluation.seed)
    for name in ("loops", "max_loops", "halt_by"):
        value = getattr(evaluation, name)
        if value not in (None, "auto"):
            at_least(f"evaluation.{name}", value, 1)
    if "bayes" in (evaluation.baselines or ()):
        _check_bayes(config)
    if not (math.isfinite(evaluation.tolerance) and evaluation.tolerance > 0):
        raise ConfigError(
            "evaluation.tolerance", f"must be finite and above 0, got {evaluation.tolerance}"
        )


def _check_bayes(config: Config) -> None:
    task = config.task
    if task.name not in _BAYES:
        raise ConfigError(
            "evaluation.baselines", f"cannot hold bayes: for task={task.name} it is not known"
        )
    sparsity = task.settings.get("sparsity", task.dims)
    few = min(sparsity, task.dims - sparsity)  # of more than 20 there are billions
    supports = math.comb(task.dims, few) if few <= 20 else math.inf
    if supports > MOST_SUPPORTS:
        number = f"{supports:,}" if few <= 20 else "billions of"
        raise ConfigError(
            "evaluation.baselines",
            f"cannot hold bayes: it would go through {number} supports, more than "
            f"{MOST_SUPPORTS:,}",
        )
