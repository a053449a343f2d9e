"""Checks of names, values and their combinations, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args, get_type_hints

from .schema import Config, GrowthConfig

_BAYES = ("linear", "noisy_linear", "sparse_linear")  # whose best predictor is known
MOST_SUPPORTS = 100_000  # of a sparse function that the best predictor goes through


class ConfigError(ValueError):
    """A mistake in a setting: which key, and what was expected. One line, fit for a user."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}")
        self.key = key


class RunError(RuntimeError):
    """What cannot go on, and why: a run, a file that it needs. One line, fit for a user."""


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean …?' with the known name nearest to `name`, or the list of all of them."""
    options = sorted(known)
    close = get_close_matches(name, options, n=1, cutoff=0.6)
    close = close or [option for option in options if name and name in option]
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {', '.join(options)}"


def check_choice(key: str, value: Any, options: Iterable[str]) -> None:
    """Raises ConfigError where `value` is none of the options."""
    if value not in options:
        raise ConfigError(key, f"cannot be {value!r}{nearest(str(value), options)}")


def check_setting(key: str, value: Any) -> None:
    """One setting of a task: a whole number counts something (at least 1, but `distinct_prompts`
    may be 0, for no limit), any other is finite and not negative. Raises ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    least = 1 if isinstance(value, int) and not key.endswith("distinct_prompts") else 0
    if not math.isfinite(value) or value < least:
        raise ConfigError(key, f"must be at least {least}, got {value}")


def check_config(config: Config) -> None:
    """Ranges and combinations; raises ConfigError for the first that cannot run."""
    _check_task(config)
    _check_model(config)
    _check_curriculum(config)
    _check_training(config)
    _check_evaluation(config)
    _check_seed("seed", config.seed)
    kinds = get_type_hints(Config)
    for name in ("precision", "backend", "wandb"):
        check_choice(name, getattr(config, name), get_args(kinds[name]))


def _check_task(config: Config) -> None:
    task = config.task
    check_setting("task.dims", task.dims)
    _at_least("task.points", task.points, 2)
    check_setting("task.distinct_prompts", task.distinct_prompts)
    for key, value in task.settings.items():
        check_setting(f"task.{key}", value)
    if task.settings.get("sparsity", 1) > task.dims:
        sparsity = task.settings["sparsity"]
        raise ConfigError("task.sparsity", f"is {sparsity}, but there are {task.dims} dims")


def _check_model(config: Config) -> None:
    model = config.model
    for name in ("n_layer", "n_embd", "n_head", "n_positions"):
        _at_least(f"model.{name}", getattr(model, name), 1)
    if model.n_embd % model.n_head:
        raise ConfigError(
            "model.n_embd", f"must be a multiple of model.n_head={model.n_head}, got {model.n_embd}"
        )
    if config.task.points > model.n_positions:
        raise ConfigError(
            "task.points",
            f"is {config.task.points}, more than the model has positions "
            f"(model.n_positions={model.n_positions})",
        )
    if (model.injection == "none") != (model.family != "looped"):
        raise ConfigError(
            "model.injection",
            f"cannot be {model.injection!r} with model={model.family}: looped models inject the "
            "prompt (add or multiply), tied and standard ones do not (none)",
        )


def _check_curriculum(config: Config) -> None:
    _at_least("loops.b", config.loops.b, 1)
    _at_least("loops.T", config.loops.T, 1)
    ends = {"dims": config.task.dims, "points": config.task.points, "loops": config.loops.b}
    for name, end in ends.items():
        growth: GrowthConfig = getattr(config.curriculum, name)
        key = f"curriculum.{name}"
        _at_least(f"{key}.inc", growth.inc, 1)
        if not growth.intervals:
            raise ConfigError(f"{key}.intervals", "must hold at least one number of steps")
        _at_least(f"{key}.intervals", min(growth.intervals), 1)
        if growth.start is None:
            continue
        _at_least(f"{key}.start", growth.start, 1)
        if growth.start > end:
            raise ConfigError(f"{key}.start", f"is {growth.start}, beyond the end of {end}")


def _check_training(config: Config) -> None:
    training = config.training
    for name in ("batch_size", "shards", "checkpoint_every", "log_every"):
        _at_least(f"training.{name}", getattr(training, name), 1)
    for name in ("steps", "weight_decay", "clip", "warmup", "decay", "beta1", "beta2"):
        _at_least(f"training.{name}", getattr(training, name), 0)
    if not training.learning_rate > 0:
        raise ConfigError(
            "training.learning_rate", f"must be above 0, got {training.learning_rate}"
        )
    if training.decay > 1:
        raise ConfigError("training.decay", f"is a fraction of the steps, got {training.decay}")
    for name in ("beta1", "beta2"):
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
        _at_least(f"evaluation.{name}", getattr(evaluation, name), least)
    _check_seed("evaluation.seed", evaluation.seed)
    for name in ("loops", "max_loops"):
        value = getattr(evaluation, name)
        if value not in (None, "auto"):
            _at_least(f"evaluation.{name}", value, 1)
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
    supports = math.comb(task.dims, task.settings.get("sparsity", task.dims))
    if supports > MOST_SUPPORTS:
        raise ConfigError(
            "evaluation.baselines",
            f"cannot hold bayes: it would go through {supports:,} supports, "
            f"more than {MOST_SUPPORTS:,}",
        )


def _check_seed(key: str, seed: int) -> None:
    """Generators take up to 63 bits, and some count on from it."""
    _at_least(key, seed, 0)
    if seed >= 2**62:
        raise ConfigError(key, f"must be below 2^62, got {seed}")


def _at_least(key: str, value: float, least: int) -> None:
    if not (math.isfinite(value) and value >= least):
        raise ConfigError(key, f"must be at least {least}, got {value}")
