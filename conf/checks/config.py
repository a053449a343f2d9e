"""Checks of names, values, their combinations and sizes, without torch."""

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from ..files import own_settings
from ..mistakes import ConfigError, check_choice, check_count, check_path, nearest
from ..plugins import added_tasks
from ..schema import Config, GrowthConfig, TaskConfig
from ..setting import check_settings, convert_scalar
from .loops import loop_mistakes
from .model import check_model, prompt_mistakes

# The suite's tasks whose `Task.bayes` knows a predictor; said before torch is imported.
WITH_BAYES = ("linear", "noisy_linear", "sparse_linear", "curves")
MOST_SUPPORTS = 100_000  # of a sparse function that the Bayes predictor sums over
_NO_SHIFTS = {  # tasks without shifted inputs
    "curves": "shifts are of inputs, and here these are features of one number",
    "halfspaces": "shifts are of regression, and here y is a class",
    "language": "a text has no shifted inputs",
    "tables": "a table has no function to ask at other inputs",
    "tables_prior": "a table has no function to ask at other inputs",
    "tables_prior_regression": "a table has no function to ask at other inputs",
}
_OF_TEXTS = {  # settings of texts alone
    "model": ("tied_head", "softcap"),
    "training": ("embedding_std", "head_std", "embedding_rate", "head_rate", "embedding_dtype"),
}


def check_setting(key: str, value: Any) -> None:
    """Check one setting of a task: a whole number is at least 1, any other number is finite and not
    negative, the path of a folder is not empty. `distinct_prompts` and `distinct_functions` may be
    0, for no limit. Raises ConfigError."""
    if isinstance(value, str) and key.endswith("_dir"):
        check_path(key, value)
    # True is an int to Python, and no count.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    least = 1 if isinstance(value, int) and "distinct_" not in key else 0
    check_count(key, value, least)


def check_config(config: Config) -> None:
    """Raises ConfigError for the first value out of its range, and for the first combination that
    cannot run."""
    task = config.task
    loops = config.loops
    typed_settings(task.name, task.settings)
    check_settings("task.", task)
    for key, value in task.settings.items():
        check_setting(f"task.{key}", value)
    check_model(config.model)
    check_settings("loops.", loops)
    ends = {"dims": task.dims, "points": task.points, "loops": loops.b}
    for name, end in ends.items():
        growth: GrowthConfig = getattr(config.curriculum, name)
        check_settings(f"curriculum.{name}.", growth)
        if not growth.intervals:
            raise ConfigError(f"curriculum.{name}.intervals", "must hold a number of steps")
        if growth.start is not None and growth.start > end:
            beyond = f"is {growth.start}, beyond the end of {end}"
            raise ConfigError(f"curriculum.{name}.start", beyond)
    check_settings("training.", config.training)
    check_settings("", config)
    check_evaluation(config)
    mistakes = chain(
        _task_mistakes(task),
        prompt_mistakes(config.model, task),
        _text_mistakes(config),
        loop_mistakes(config),
        _training_mistakes(config),
    )
    # The first one ends it: the generators are asked no further.
    for key, problem in mistakes:
        raise ConfigError(key, problem)


def _task_mistakes(task: TaskConfig) -> Iterator[tuple[str, str]]:
    if task.distinct_functions and (task.distinct_prompts or task.name == "tables"):
        other = "task.distinct_prompts" if task.distinct_prompts else "task=tables"
        yield "task.distinct_functions", f"has no meaning with {other}"
    if (condition := task.settings.get("condition", 1)) < 1:
        yield "task.condition", f"must be at least 1, got {condition}"
    if (sparsity := task.settings.get("sparsity", 1)) > task.dims:
        yield "task.sparsity", f"is {sparsity}, but there are {task.dims} dims"


def _text_mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """Settings of texts with another task, and the other way round."""
    if not config.task.is_text:
        for group, names in _OF_TEXTS.items():
            settings = getattr(config, group)
            for name in names:
                # A dataclass keeps a field's default as an attribute of the class.
                if getattr(settings, name) != getattr(type(settings), name):
                    yield f"{group}.{name}", f"has no meaning with task={config.task.name}"
        return
    settings = config.task.settings
    check_choice("task.packing", settings.get("packing", "running"), ("running", "best_fit"))
    if settings.get("packing") == "best_fit" and settings.get("text", "").lower().endswith(".bin"):
        problem = "cannot be best_fit: a .bin of tokens does not say where documents begin"
        yield "task.packing", problem
    if config.task.dims != 1:
        yield "task.dims", "has no meaning with task=language: tokens are one number"
    if config.curriculum.dims.start not in (None, 1):
        yield "curriculum.dims.start", "has no meaning with task=language"
    if config.model.injection == "linear_attention":
        yield "model.injection", "cannot be linear_attention for a text"
    if config.model.tokens != "interleaved":
        yield "model.tokens", "cannot be pairs for a text, which has none"
    if config.model.tied_head and config.training.head_rate:
        yield "training.head_rate", "has no meaning with model.tied_head: it is the embedding's"
    if config.model.tied_head and config.training.embedding_dtype != "float32":
        yield "training.embedding_dtype", "must be float32 with model.tied_head: it is the head's"


def check_evaluation(config: Config) -> None:
    """Raises ConfigError for the first setting of the evaluation that is out of its range, or that
    has no meaning with the task."""
    check_settings("evaluation.", config.evaluation)
    reason = _NO_SHIFTS.get(config.task.name)
    if config.evaluation.shifts and reason:
        raise ConfigError("evaluation.shifts", f"must be empty: {reason}")
    if config.evaluation.normalise != "none" and config.task.is_text:
        problem = "must be none for task=language: a text has no scale"
        raise ConfigError("evaluation.normalise", problem)
    for key, problem in _bayes_mistakes(config):
        raise ConfigError(key, problem)


def _training_mistakes(config: Config) -> Iterator[tuple[str, str]]:
    training = config.training
    model = config.model
    if training.muon_norm == "kept" and model.block == "flt":
        problem = "matrices of model.block=flt begin as zero, and would stay it"
        yield "training.muon_norm", f"cannot be kept: {problem} (relu2 is like it, without zeros)"
    if model.injection == "linear_attention":
        if training.muon_norm == "kept":
            problem = "the matrix of model=linear_attention begins as zero, and would stay it"
            yield "training.muon_norm", f"cannot be kept: {problem}"
        if training.log_norms:
            yield "training.log_norms", "has no meaning with model=linear_attention: it has no MLP"
    if training.muon_norm == "kept" and training.weight_decay:
        yield "training.weight_decay", "has no meaning with training.muon_norm=kept"
    if training.decay_to and not training.decay:
        yield "training.decay_to", "has no meaning with training.decay=0: the rate does not fall"
    if training.batch_size % training.shards:
        problem = f"must divide training.batch_size={training.batch_size}, got {training.shards}"
        yield "training.shards", problem
    if training.jacobian_penalty and model.family == "standard":
        problem = "has no meaning with model=standard: no layer is applied to its own output"
        yield "training.jacobian_penalty", problem
    several = model.connectivity or model.lanes or model.injection == "linear_attention"
    if training.jacobian_penalty and several:
        problem = "cannot be used here: the state of this loop is more than one stream"
        yield "training.jacobian_penalty", problem
    kind = model.block, model.attention, model.block_norm, model.prelude, model.n_hidden
    # The class models/blocks/gpt2.py, in the first block of a loop that begins with it.
    plain = kind == ("gpt2", "full", "pre", 0, 0)
    plain = plain and not several and not config.task.is_text
    if training.previous_token_head and not (plain and model.n_head > 1):
        problem = "needs pairs, GPT-2 blocks with model.n_hidden=0 and two heads or more"
        yield "training.previous_token_head", problem
    elif training.previous_token_head and model.n_embd // model.n_head % 2:
        yield "training.previous_token_head", "needs heads of an even number of numbers"
    for step in (step for step in training.snapshots if step > training.steps):
        yield "training.snapshots", f"cannot hold {step}: there are {training.steps:,} steps"


def _bayes_mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """Of the suite's tasks; one of the user's is asked when it is loaded (`Task.bayes`)."""
    task = config.task
    key = "evaluation.baselines"
    if "bayes" not in (config.evaluation.baselines or ()) or task.name in added_tasks():
        return
    if task.name not in WITH_BAYES:
        yield key, f"cannot hold bayes: for task={task.name} it is not known"
    # One support for a dense function: that of all dimensions.
    supports = math.comb(task.dims, task.settings.get("sparsity", task.dims))
    if supports > MOST_SUPPORTS:
        number = f"{supports:,}" if supports < 10**9 else "billions of"
        yield key, f"cannot hold bayes: {number} supports are more than {MOST_SUPPORTS:,}"


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
