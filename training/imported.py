"""A checkpoint of a reference code, made a run folder of ours.

run = import_checkpoint("results2/…/state.pt", {"model.n_head": 8, "task": "linear", …})
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from conf.build import config_from_mapping, config_to_mapping, convert_scalar, flatten, read_config
from conf.checks import ConfigError, check_choice
from conf.schema import Config
from tasks import task_class

from .assemble import build_task, model_from
from .checkpoint import newest_checkpoint, save_checkpoint
from .files import read_json, write_json
from .reference_file import ReferenceFile, read_reference_file
from .reference_settings import reference_settings
from .run import Run, RunError, RunFolder, environment

# What a checkpoint does not say of a family's loops, and what nobody could mean with it.
_ASKED = {"looped": ("model.injection", "loops.b", "loops.T"), "tied": ("loops.b",), "standard": ()}
_USELESS = {"looped": (), "tied": ("loops.T",), "standard": ("loops.b", "loops.T")}
# What the shape of a reference's model is: it has none of the others.
_SHAPE = ("n_layer", "n_embd", "n_head", "n_positions", "injection")
_EXAMPLES = {
    **{"task": "sparse_linear", "task.points": 41, "model": "looped", "model.n_head": 8},
    **{"model.injection": "add", "loops.b": 20, "loops.T": 10, "training.steps": 500_000},
}


def import_checkpoint(
    path: str | PathLike[str], given: Mapping[str, Any], folder: str = "runs"
) -> Run:
    """The run of a checkpoint of github.com/Leiay/looped_transformer or
    github.com/dtsip/in-context-learning, in a run folder below `folder`: made, or found there.

    Settings come from `given` (by key, as on the command line; `task` and `model` by name), from
    the config.yaml beside the file and from the tensors. Raises ConfigError for what is missing,
    contradicts the tensors or cannot run, RunError for a file that cannot be imported or a folder
    that holds something else. Nothing in the file is run.
    """
    source = read_reference_file(Path(path))
    theirs = reference_settings(source.path.parent / "config.yaml", source.reference.code)
    config = _settle(source, theirs, given, folder)
    task = build_task(config)
    model = model_from(config, task.classes, source.reference.weights)
    step = config.training.steps if source.step is None else source.step
    name = f"{config.task.name}-{config.model.family}-imported-{source.sha256[:8]}"
    run = Run(Path(folder) / name, config, task, model, step)
    if run.path.exists():
        _check_found(run, source)
        print(f"{run.path}: imported already", flush=True)
    else:
        record = {
            **{"checkpoint": str(source.path.resolve()), "sha256": source.sha256},
            **{"code": source.reference.code, "holds": source.holds},
            **{"from_checkpoint": source.facts(), "from_config": theirs, "from_command": {**given}},
        }
        _write(run, record)
    return run


def _settle(
    source: ReferenceFile, theirs: Mapping[str, Any], given: Mapping[str, Any], folder: str
) -> Config:
    """Every setting: as given, else as their config.yaml says, and never against the tensors."""
    facts = source.facts()
    for key, fact in facts.items():
        if given.get(key, fact) != fact:
            raise ConfigError(key, f"cannot be {given[key]!r}: {source.path} has {fact!r}")
        if theirs.get(key, fact) != fact:
            beside = source.path.parent / "config.yaml"
            raise RunError(f"{beside} says {key}={theirs[key]!r}, but {source.path} has {fact!r}")
    values = _still_true(theirs, given) | dict(given) | facts
    family, task = values.get("model", "looped"), values.get("task", "sparse_linear")
    settings = _task_settings(task)
    _check_shape(given, family)
    _check_missing(source, values, [f"task.{key}" for key in settings], family)
    for key in values:
        of_task = key.partition(".")[2] if key.startswith("task.") else ""
        if of_task not in ("", "dims", "points", "distinct_prompts", *settings):
            raise ConfigError(key, f"has no meaning with task={task}")
        if key in _USELESS.get(family, ()):
            raise ConfigError(key, f"has no meaning with model={family}")
    for name, end in (("dims", "task.dims"), ("points", "task.points"), ("loops", "loops.b")):
        start = f"curriculum.{name}.start"  # theirs is clamped after one step
        if isinstance(values.get(start), int) and isinstance(values.get(end), int):
            values[start] = min(values[start], values[end])
    values.setdefault("model.injection", "none")
    for key, default in settings.items():
        value = convert_scalar(type(default), values.pop(f"task.{key}"), f"task.{key}")
        values[f"task.settings.{key}"] = value
    values |= {"task.name": values.pop("task"), "model.family": values.pop("model")}
    return config_from_mapping(_nested(values | {"folder": folder}))


def _check_shape(given: Mapping[str, Any], family: str) -> None:
    """ConfigError for a model that the reference codes do not have."""
    if "model" in given:
        check_choice("model", family, _USELESS)
    for key in given:
        group, _, name = key.partition(".")
        if group == "model" and name and name not in _SHAPE:
            raise ConfigError(key, "cannot be given to an import: a reference's models have none")
    if family == "looped" and given.get("model.injection") in ("none", "concat"):
        raise ConfigError(
            "model.injection",
            f"cannot be {given['model.injection']!r} with model=looped: a reference's looped "
            "models inject the prompt by add or multiply",
        )


def _still_true(theirs: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Their settings without those of a task or a family that is replaced."""
    dropped: list[str] = []
    if "task" in theirs and given.get("task", theirs["task"]) != theirs["task"]:
        dropped += [f"task.{key}" for key in _task_settings(theirs["task"])]
    if given.get("model", theirs.get("model")) != theirs.get("model"):
        loops = [key for key in theirs if key.startswith(("loops.", "curriculum.loops."))]
        dropped += ["model.injection", *loops]
    return {key: value for key, value in theirs.items() if key not in dropped}


def _task_settings(task: str) -> dict[str, Any]:
    """A task's own settings with their defaults; ConfigError for a task that does not exist."""
    try:
        own = {field.name: field.default for field in fields(task_class(task))}
    except ValueError as error:
        raise ConfigError("task", f"is an {error}") from None
    return {key: value for key, value in own.items() if key not in ("dims", "distinct_prompts")}


def _check_missing(
    source: ReferenceFile, values: Mapping[str, Any], settings: list[str], family: str
) -> None:
    """ConfigError that names all that nothing says, with an example of how to say it."""
    asked = ["task", *settings, "task.points", "model", "model.n_head", *_ASKED.get(family, ())]
    missing = [key for key in [*asked, "training.steps"] if key not in values]
    if missing:
        defaults = _task_settings(values.get("task", "sparse_linear"))
        examples = _EXAMPLES | {f"task.{key}": value for key, value in defaults.items()}
        words = " ".join(f"{key}={_word(examples[key])}" for key in missing)
        raise ConfigError(
            "checkpoint",
            f"{source.path} does not say {', '.join(missing)}: say them, as in {words}",
        )


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as groups of settings."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *groups, last = key.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return nested


def _check_found(run: Run, source: ReferenceFile) -> None:
    """RunError unless the folder that is there holds the same import, whole."""
    record = flatten(read_json(run.path / "environment.json") or {})
    if record.get("imported.sha256") != source.sha256:
        raise RunError(f"{run.path} is in the way: it is no import of {source.path}")
    there = flatten(config_to_mapping(read_config(run.path)))
    for key, value in flatten(config_to_mapping(run.config)).items():
        if key != "folder" and there.get(key) != value:
            said = key.replace(".settings.", ".")
            raise RunError(
                f"{run.path} holds this checkpoint with {said}={there.get(key)}, not {value}: "
                "move it away, or import into another folder="
            )
    if newest_checkpoint(RunFolder(run.path).checkpoints)[0] is None:
        raise RunError(f"{run.path} is damaged: remove it and import again")


def _write(run: Run, record: Mapping[str, Any]) -> None:
    """The run folder, whole or not at all."""
    beside = RunFolder(run.path.with_name(f".{run.path.name}.{os.getpid()}"))
    try:
        beside.create(run.config)
        write_json(beside.path / "environment.json", environment() | {"imported": record})
        weights = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
        save_checkpoint(beside.checkpoints, run.step, weights)
        beside.write_status("finished", run.step)
        os.rename(beside.path, run.path)
    finally:
        shutil.rmtree(beside.path, ignore_errors=True)
