"""What a checkpoint of a reference code does not say of itself, asked for in one line.

check_said(source, values)     # ConfigError: … does not say model.n_head, …: say them, as in …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from reloop.conf.mistakes import ConfigError
from reloop.tasks import task_class

from .file import ReferenceFile
from .settings import always

# What a checkpoint does not say of a family's loops, and what nobody could mean with it.
_ASKED = {"looped": ("model.injection", "loops.b", "loops.T"), "tied": ("loops.b",), "standard": ()}
USELESS = {"looped": (), "tied": ("loops.T",), "standard": ("loops.b", "loops.T")}
_EXAMPLES = {"model.injection": "add", "loops.b": 20, "loops.T": 15, "training.steps": 500_000}
_OF_TASKS = ("linear", "sparse_linear", "noisy_linear", "relu_network", "decision_tree")
_OF_CLASSES = ("tables", "halfspaces")
_MOST_POINTS, _MOST_HEADS = 41, 8  # of an example


def task_settings(task: str) -> dict[str, Any]:
    """A task's own settings with their defaults; ConfigError for a task that does not exist."""
    try:
        own = {field.name: field.default for field in fields(task_class(task))}
    except ValueError as error:
        raise ConfigError("task", f"is an {error}") from None
    return {key: value for key, value in own.items() if key not in ("dims", "distinct_prompts")}


def check_said(source: ReferenceFile, values: Mapping[str, Any]) -> None:
    """ConfigError that names what nothing says, with an example, of this checkpoint's sizes, of how
    to say it. What a task or a family needs is asked for when it is known which one it is."""
    missing = [key for key in _needed(values) if key not in values]
    if not missing:
        return
    examples = _examples(source, values)
    whole = examples | dict(values)
    said = {key: whole[key] for key in _needed(whole) if key not in values}
    words = " ".join(f"{key}={_word(value)}" for key, value in said.items())
    more = ", and what goes with them" if len(said) > len(missing) else ""
    raise ConfigError(
        "checkpoint",
        f"{source.path} does not say {', '.join(missing)}: say them{more}, as in {words}",
    )


def untold(given: Mapping[str, Any], theirs: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """One line on what was given, is not in their config.yaml and fits the tensors whatever it is;
    empty where there is nothing of the kind."""
    found = []
    for key in ("model", "model.n_head", "model.injection"):
        if key in given and key not in facts and theirs.get(key) != given[key]:
            against = f" (their config.yaml: {theirs[key]})" if key in theirs else ""
            found.append(f"{key}={given[key]}{against}")
    if not found:
        return ""
    verb = "are" if len(found) > 1 else "is"
    return (
        f"{', '.join(found)} {verb} taken as given: the tensors cannot tell, and with another "
        "value than in training the model predicts something else"
    )


def _needed(values: Mapping[str, Any]) -> list[str]:
    """The keys that must be said, as far as it is known which task and family it is."""
    keys = ["task"]
    if "task" in values:
        own = [f"task.{name}" for name in task_settings(values["task"])]
        keys += [key for key in own if key not in always(values["task"])]
    keys += ["task.points", "model", "model.n_head", *_ASKED.get(values.get("model", ""), ())]
    return [*keys, "training.steps"]


def _examples(source: ReferenceFile, values: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every key that can be asked for: one that the tensors and what was said allow."""
    shape = source.reference
    named = {key.removeprefix("task.") for key in values if key.startswith("task.")}
    named -= {"dims", "points", "distinct_prompts"}
    tasks = _OF_CLASSES if shape.classes else _OF_TASKS
    fitting = (task for task in tasks if named <= task_settings(task).keys())
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
