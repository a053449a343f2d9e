"""A checkpoint of a reference code, made a run folder of ours.

run = import_checkpoint("results2/…/state.pt", {"model.n_head": 8, "task": "linear", …})
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from reloop.conf.build import config_from_mapping, config_to_mapping, convert_scalar, flatten
from reloop.conf.mistakes import ConfigError, check_choice
from reloop.conf.saved import read_config
from reloop.conf.schema import Config
from reloop.models.reference import Reference
from reloop.tasks import task_class

from ..assemble import build_task, model_from
from ..run_folder.checkpoint import CheckpointError, newest_checkpoint, save_checkpoint
from ..run_folder.environment import versions
from ..run_folder.files import write_record
from ..run_folder.run import Run, RunError, RunFolder
from .file import ReferenceFile, read_reference_file
from .questions import USELESS, check_said, task_settings, untold
from .settings import always, reference_settings

# What the shape of a reference's model is: it has none of the others.
_SHAPE = ("n_layer", "n_embd", "n_head", "n_positions", "injection")


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
    shape = source.reference
    if task.classes and not shape.classes:
        shape = shape.as_classifier()
    try:
        model = model_from(config, task.classes, dict(shape.weights))
    except CheckpointError as error:
        raise RunError(f"{path}: {error}") from None
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
    if line := untold(given, theirs, source.facts()):
        print(f"{run.path}: {line}", flush=True)
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
    if "task" in values:
        values = always(values["task"]) | values
        _check_read_out(source, given, values["task"])
    _check_shape(given, values.get("model"), source.reference)
    _check_meaning(values)
    check_said(source, values)
    for name, end in (("dims", "task.dims"), ("points", "task.points"), ("loops", "loops.b")):
        start = f"curriculum.{name}.start"  # theirs is clamped after one step
        if isinstance(values.get(start), int) and isinstance(values.get(end), int):
            values[start] = min(values[start], values[end])
    values.setdefault("model.injection", "none")
    for key, default in task_settings(values["task"]).items():
        values[f"task.settings.{key}"] = _typed(default, values.pop(f"task.{key}"), f"task.{key}")
    values |= {"task.name": values.pop("task"), "model.family": values.pop("model")}
    return config_from_mapping(_nested(values | {"folder": folder}))


def _check_read_out(source: ReferenceFile, given: Mapping[str, Any], task: str) -> None:
    """A regression's model reads out one number and a classifier's two logits (but for dtsip's
    linear classification, whose number is one): ConfigError, or RunError where their config.yaml
    says the task."""
    task_settings(task)  # a task that there is not is refused
    shape, classes = source.reference, task_class(task).classes
    if classes == shape.classes or (task == "halfspaces" and shape.code.startswith("dtsip")):
        return
    reads = "two logits, and its task is tables or halfspaces"
    problem = f"{source.path} reads out {reads if shape.classes else 'one number, no classes'}"
    if "task" in given:
        raise ConfigError("task", f"cannot be {task!r}: {problem}")
    raise RunError(f"{source.path.parent / 'config.yaml'} says task={task}, but {problem}")


def _check_shape(given: Mapping[str, Any], family: str | None, shape: Reference) -> None:
    """ConfigError for a model that the reference codes do not have, or not with these tensors."""
    if "model" in given:
        check_choice("model", family, USELESS)
    if family == "tied" and shape.classes:
        raise ConfigError("model", "cannot be 'tied': no reference code has a tied classifier")
    heads = given.get("model.n_head")
    if isinstance(heads, int) and heads > 0 and shape.n_embd % heads:
        raise ConfigError("model.n_head", f"must divide model.n_embd={shape.n_embd}, got {heads}")
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


def _check_meaning(values: Mapping[str, Any]) -> None:
    """ConfigError for a key that the task or the family, where it is known, does not have."""
    settings = task_settings(values["task"]) if "task" in values else None
    for key in values:
        of_task = key.partition(".")[2] if key.startswith("task.") else ""
        own = settings is None or of_task in ("", "dims", "points", "distinct_prompts", *settings)
        if not own:
            raise ConfigError(key, f"has no meaning with task={values['task']}")
        if key in USELESS.get(values.get("model", ""), ()):
            raise ConfigError(key, f"has no meaning with model={values['model']}")


def _typed(default: Any, value: Any, key: str) -> Any:
    """`value` as what its default is: a number, a bool, a name, or several names."""
    if not isinstance(default, tuple):
        return convert_scalar(type(default), value, key)
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(convert_scalar(str, item, key) for item in items)


def _still_true(theirs: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Their settings without those of a task or a family that is replaced."""
    dropped: list[str] = []
    if "task" in theirs and given.get("task", theirs["task"]) != theirs["task"]:
        dropped += [f"task.{key}" for key in task_settings(theirs["task"])]
    if given.get("model", theirs.get("model")) != theirs.get("model"):
        loops = [key for key in theirs if key.startswith(("loops.", "curriculum.loops."))]
        dropped += ["model.injection", *loops]
    return {key: value for key, value in theirs.items() if key not in dropped}


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
    record = flatten(RunFolder(run.path).made_with() or {})
    if record.get("imported.sha256") != source.sha256:
        raise RunError(f"{run.path} is in the way: it is no import of {source.path}")
    there = flatten(config_to_mapping(read_config(run.path)))
    for key, value in flatten(config_to_mapping(run.config)).items():
        if key != "folder" and there.get(key) != value:
            said = key.replace(".settings.", ".")
            raise RunError(
                f"{run.path} holds this checkpoint with {said}={there.get(key)!r}, not {value!r}: "
                "move it away, or import into another folder="
            )
    if newest_checkpoint(RunFolder(run.path).checkpoints)[0] is None:
        raise RunError(f"{run.path} is damaged: remove it and import again")


def _write(run: Run, record: Mapping[str, Any]) -> None:
    """The run folder, whole or not at all."""
    beside = RunFolder(run.path.with_name(f".{run.path.name}.{os.getpid()}"))
    try:
        saved = beside.create(run.config)
        # Without source files: the weights are of other code.
        made_with = versions() | {"imported": record}
        write_record(beside.path / "environment.json", "environment", made_with)
        weights = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
        save_checkpoint(beside.checkpoints, run.step, weights, saved)
        beside.write_status("finished", run.step)
        os.rename(beside.path, run.path)
    finally:
        shutil.rmtree(beside.path, ignore_errors=True)
