"""The settings that a checkpoint of a reference code lacks, requested in one line.

check_complete(source, values)     # ConfigError: … does not say model.n_head, …: say them, as in …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from reloop.conf.mistakes import ConfigError
from reloop.tasks import task_class

from .file import ReferenceFile
from .settings import fixed_settings

# Per family, settings of the loops that a checkpoint lacks, and those without a meaning.
_LOOP_KEYS = {
    "looped": ("model.injection", "loops.b", "loops.T"),
    "tied": ("loops.b",),
    "standard": (),
}
MEANINGLESS = {"looped": (), "tied": ("loops.T",), "standard": ("loops.b", "loops.T")}
_EXAMPLES = {"model.injection": "add", "loops.b": 20, "loops.T": 15, "training.steps": 500_000}
_OF_TASKS = ("linear", "sparse_linear", "noisy_linear", "relu_network", "decision_tree")
_OF_CLASSES = ("tables", "halfspaces")
_MOST_POINTS, _MOST_HEADS = 41, 8  # in examples


def task_settings(task: str) -> dict[str, Any]:
    """A task's own settings with their defaults; ConfigError for an unknown task."""
    try:
        defaults = {field.name: field.default for field in fields(task_class(task))}
    except ValueError as error:
        raise ConfigError("task", f"is an {error}") from None
    shared = ("dims", "distinct_prompts", "distinct_functions")
    return {key: value for key, value in defaults.items() if key not in shared}


def check_complete(source: ReferenceFile, values: Mapping[str, Any]) -> None:
    """ConfigError that names the missing settings, with an example for this checkpoint's sizes.
    Settings of a task or a family are required once it is known."""
    missing = [key for key in _required_keys(values) if key not in values]
    if not missing:
        return
    examples = _examples(source, values)
    complete = examples | dict(values)
    suggestion = {key: complete[key] for key in _required_keys(complete) if key not in values}
    words = " ".join(f"{key}={_word(value)}" for key, value in suggestion.items())
    addition = ", and what goes with them" if len(suggestion) > len(missing) else ""
    raise ConfigError(
        "checkpoint",
        f"{source.path} does not say {', '.join(missing)}: say them{addition}, as in {words}",
    )


def unverified_note(
    user_settings: Mapping[str, Any], file_settings: Mapping[str, Any], facts: Mapping[str, Any]
) -> str:
    """One line on given settings that are not in config.yaml and that the tensors cannot confirm;
    empty where there are none."""
    parts = []
    for key in ("model", "model.n_head", "model.injection"):
        if (
            key in user_settings
            and key not in facts
            and file_settings.get(key) != user_settings[key]
        ):
            remark = f" (their config.yaml: {file_settings[key]})" if key in file_settings else ""
            parts.append(f"{key}={user_settings[key]}{remark}")
    if not parts:
        return ""
    verb = "are" if len(parts) > 1 else "is"
    return (
        f"{', '.join(parts)} {verb} taken as given: the tensors cannot tell, and with another "
        "value than in training the model predicts something else"
    )


def _required_keys(values: Mapping[str, Any]) -> list[str]:
    """The required keys, as far as task and family are known."""
    keys = ["task"]
    if "task" in values:
        names = [f"task.{name}" for name in task_settings(values["task"])]
        keys += [key for key in names if key not in fixed_settings(values["task"])]
    keys += ["task.points", "model", "model.n_head", *_LOOP_KEYS.get(values.get("model", ""), ())]
    return [*keys, "training.steps"]


def _examples(source: ReferenceFile, values: Mapping[str, Any]) -> dict[str, Any]:
    """An example value for every required key, consistent with the tensors and `values`."""
    shape = source.reference
    names = {key.removeprefix("task.") for key in values if key.startswith("task.")}
    names -= {"dims", "points", "distinct_prompts", "distinct_functions"}
    tasks = _OF_CLASSES if shape.classes else _OF_TASKS
    fitting = (task for task in tasks if names <= task_settings(task).keys())
    task = values.get("task", next(fitting, tasks[0]))
    loops = any(key.startswith(("loops.", "model.injection")) for key in values)
    heads = (count for count in range(_MOST_HEADS, 1, -1) if shape.n_embd % count == 0)
    return {
        **{f"task.{key}": value for key, value in task_settings(task).items()},
        **_EXAMPLES,
        "task": task,
        "task.sparsity": min(3, shape.dims),
        "task.points": min(_MOST_POINTS, shape.n_positions),
        "model": "looped" if shape.n_layer == 1 or loops else "standard",
        "model.n_head": next(heads, 1),
    }


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
