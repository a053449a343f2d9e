"""A checkpoint of a reference code, made a run folder of ours.

run = import_checkpoint("results2/…/state.pt", {"model.n_head": 8, "task": "linear", …})
"""

import hashlib
import io
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from looplab.conf.build import config_from_mapping
from looplab.conf.checks.checkpoint import why_not_one_file
from looplab.conf.files import choices, own_settings
from looplab.conf.mistakes import ConfigError, RunError, check_choice, one_line
from looplab.conf.saved import read_config
from looplab.conf.schema import Config
from looplab.conf.words import nested
from looplab.models.reference import HUGINN, LOOPED_LM, READ_IN, Reference, read_reference
from looplab.tasks.language import Language

from ..assemble import build_task, model_from
from ..run_folder.checkpoint import save_checkpoint
from ..run_folder.data import keep_data
from ..run_folder.files import write_record
from ..run_folder.run import Run, RunFolder, versions
from .settings import fixed_settings, reference_settings
from .texts import huginn_settings, huginn_weights, looped_lm_settings, looped_lm_weights

# Where files of forks and trainers keep the step.
_STEPS = ("train_step", "global_step", "step", "global_steps", "iter_num")
# What numbers and arrays of numpy are made of, which trainers keep beside tensors.
_NUMPY: list[Any] = [np.dtype, np.ndarray]
_NUMPY += [type(np.dtype(code)) for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"]]
for _made in (np.float64(0), np.zeros(0)):
    # The functions by which numpy unpickles a number and an array; their module has had two names.
    _function: Any = _made.__reduce__()[0]
    for _core in ("core", "_core"):  # before and since numpy 2
        _NUMPY.append((_function, f"numpy.{_core}.multiarray.{_function.__name__}"))
# The settings of a reference's model, which has no others, and of the loops of each family.
_SHAPE = ("n_layer", "n_embd", "n_head", "n_positions", "injection")
_LOOPS = {"looped": ("model.injection", "loops.b", "loops.T"), "tied": ("loops.b",), "standard": ()}
# Codes of texts: their settings beside a checkpoint, and their weights as our model has them.
_TEXTS = {
    LOOPED_LM: (looped_lm_settings, looped_lm_weights),
    HUGINN: (huginn_settings, huginn_weights),
}


@dataclass(frozen=True)
class ReferenceFile:
    """The content of a checkpoint file; `step`, as its code counts, is None where neither the file
    nor its name gives it."""

    path: Path
    sha256: str
    step: int | None
    reference: Reference

    def facts(self) -> dict[str, Any]:
        """The settings that the tensors determine, by our keys."""
        reference = self.reference
        facts: dict[str, Any] = {
            "task.dims": reference.dims,
            "model.n_layer": reference.n_layer,
            "model.n_embd": reference.n_embd,
            "model.n_positions": reference.n_positions,
        }
        if reference.code.startswith("dtsip"):
            facts["model"] = "standard"  # the code has no other
        if reference.code in _TEXTS:
            del facts["model.n_positions"]  # which are rotary
        if self.step is not None:
            facts["training.steps"] = max(self.step, 1)
        return facts


def import_checkpoint(
    path: str | PathLike[str], user_settings: Mapping[str, Any], folder: str = "runs"
) -> Run:
    """The run of a checkpoint of github.com/Leiay/looped_transformer,
    github.com/dtsip/in-context-learning or, of a text, github.com/kschwethelm/looped-lm-scaling or
    github.com/seal-rg/recurrent-pretraining, in a new or existing run folder below `folder`.

    Settings come from `user_settings` (by key, as on the command line; `task` and `model` by name),
    from the config.yaml, meta_<step>.json or config.json beside the file and from the tensors.
    Raises ConfigError for settings that are missing, contradict the tensors or cannot run. Raises
    RunError for a file that cannot be imported, or a folder with other content. No code in the file
    is run.
    """
    source = _read_file(Path(path))
    is_text = source.reference.code in _TEXTS
    if is_text:
        file_settings = _TEXTS[source.reference.code][0](source.path)
    else:
        beside = source.path.parent / "config.yaml"
        file_settings = reference_settings(beside, source.reference.code)
    config = _merge_settings(source, file_settings, user_settings, folder)
    task = build_task(config)
    shape = source.reference
    # Garg's linear classification reads out one number, the log odds.
    if task.name == "halfspaces" and not shape.classes and shape.code.startswith("dtsip"):
        shape = shape.as_classifier()
    if (task.classes, task.is_text) != (shape.classes, is_text):
        outputs = "one number"
        if is_text:
            outputs = "the next token of a text"
        elif shape.classes:
            outputs = "two logits, as for tables or halfspaces"
        raise ConfigError("task", f"cannot be {task.name!r}: {path} reads out {outputs}")
    try:
        weights = dict(shape.weights)
        if isinstance(task, Language):
            weights = _TEXTS[shape.code][1](weights, config, task.tokenizer)
        model = model_from(config, task.classes, weights, task.data.vocabulary)
    except (RuntimeError, IndexError) as error:  # CheckpointError, or of shapes that do not fit
        raise RunError(f"{path}: {one_line(error)}") from None
    step = config.training.steps if source.step is None else source.step
    name = f"{config.task.name}-{config.model.family}-imported-{source.sha256[:8]}"
    run = Run(Path(folder) / name, config, task, model, step)
    if run.path.exists():
        if changes := RunFolder(run.path).differences(config, read_config(run.path)):
            raise RunError(
                f"{run.path} holds this checkpoint with other settings ({', '.join(changes)}): "
                "move it away, or import into another folder="
            )
        print(f"{run.path}: imported already", flush=True)
    else:
        record = {
            "checkpoint": str(source.path.resolve()),
            "sha256": source.sha256,
            "code": source.reference.code,
            "from_checkpoint": source.facts(),
            "from_config": file_settings,
            "from_command": dict(user_settings),
        }
        _write(run, record)
    if line := _unverified_note(user_settings, file_settings, source.facts()):
        print(f"{run.path}: {line}", flush=True)
    return run


def _merge_settings(
    source: ReferenceFile,
    file_settings: Mapping[str, Any],
    user_settings: Mapping[str, Any],
    folder: str,
) -> Config:
    """The whole configuration: given settings, else those of config.yaml, both checked against the
    tensors."""
    facts = source.facts()
    for key, fact in facts.items():
        if user_settings.get(key, fact) != fact:
            raise ConfigError(key, f"cannot be {user_settings[key]!r}: {source.path} has {fact!r}")
        if file_settings.get(key, fact) != fact:
            config_file = source.path.parent / "config.yaml"
            raise RunError(
                f"{config_file} says {key}={file_settings[key]!r}, but {source.path} has {fact!r}"
            )
    # Later ones win: words over config.yaml; what tensors say contradicts neither by now.
    values = _applicable(file_settings, user_settings) | dict(user_settings) | facts
    family = values.get("model", "looped")
    for key in user_settings:
        if key.startswith("model.") and key.removeprefix("model.") not in _SHAPE:
            raise ConfigError(key, "cannot be given to an import: a reference's models have none")
        if key in ("loops.b", "loops.T") and key not in _LOOPS.get(family, (key,)):
            raise ConfigError(key, f"has no meaning with model={family}")
    values = fixed_settings(values.get("task", "")) | values
    if missing := [key for key in _required_keys(values) if key not in values]:
        problem = f"does not say {', '.join(missing)}: say them too, as {missing[0]}=…"
        raise ConfigError("checkpoint", f"{source.path} {problem}")
    for name, end in (("dims", "task.dims"), ("points", "task.points"), ("loops", "loops.b")):
        start = f"curriculum.{name}.start"  # the reference clamps it after one step
        if isinstance(values.get(start), int) and isinstance(values.get(end), int):
            values[start] = min(values[start], values[end])
    values.setdefault("model.injection", "none")
    for key in _own_keys(values["task"]):
        values[key.replace("task", "task.settings", 1)] = values.pop(key)
    values |= {"task.name": values.pop("task"), "model.family": values.pop("model")}
    return config_from_mapping(nested({"folder": folder} | values))


def _applicable(file_settings: Mapping[str, Any], replaced: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of config.yaml without those of a replaced task or family."""
    obsolete: tuple[str, ...] = ()
    task = file_settings.get("task")
    if task is not None and replaced.get("task", task) != task:
        obsolete += tuple(_own_keys(task))
    if replaced.get("model", file_settings.get("model")) != file_settings.get("model"):
        obsolete += ("model.injection", "loops.", "curriculum.loops.")
    return {key: value for key, value in file_settings.items() if not key.startswith(obsolete)}


def _write(run: Run, record: Mapping[str, Any]) -> None:
    """Write the run folder, completely or not at all."""
    temporary = RunFolder(run.path.with_name(f".{run.path.name}.{os.getpid()}"))
    try:
        temporary.create(run.config)
        # Without source files: the weights are from other code.
        made_with = versions() | {"imported": record}
        write_record(temporary.path / "environment.json", "environment", made_with)
        weights = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
        save_checkpoint(temporary.checkpoints, run.step, weights)
        if run.task.is_text:  # a model of tables needs no table
            keep_data(temporary.path, run.task)
        temporary.write_status("finished", run.step)
        # One step for the whole folder: a killed import leaves no half of one under the run's name.
        os.rename(temporary.path, run.path)
    finally:
        shutil.rmtree(temporary.path, ignore_errors=True)


def _own_keys(task: str) -> list[str]:
    """The keys of a task's own settings; ConfigError for an unknown task."""
    check_choice("task", task, choices("task"))
    return [f"task.{name}" for name in own_settings(task) or {}]


def _required_keys(values: Mapping[str, Any]) -> list[str]:
    """The keys that an import needs; those of a task once it is known, of a looped model unless
    another is asked for."""
    keys = ["task"]
    if "task" in values:
        keys += _own_keys(values["task"])
    keys += ["task.points", "model", "model.n_head"]
    keys += _LOOPS.get(values.get("model", "looped"), ())
    keys.append("training.steps")
    return keys


def _unverified_note(
    user_settings: Mapping[str, Any], file_settings: Mapping[str, Any], facts: Mapping[str, Any]
) -> str:
    """A line on given settings that neither config.yaml nor the tensors confirm; empty where there
    are none."""
    unsure = []
    for key in ("model", "model.n_head", "model.injection"):
        if key not in user_settings or key in facts:
            continue
        if file_settings.get(key) != user_settings[key]:
            unsure.append(f"{key}={user_settings[key]}")
    if not unsure:
        return ""
    return (
        f"{', '.join(unsure)}: taken as given, since the tensors cannot tell; with another value "
        "than in training the model predicts something else"
    )


def _step(path: Path, value: Any) -> int:
    """The number of steps of a checkpoint, in whatever type its trainer counts. Raises RunError for
    what is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        number = -1
    if number < 0 or number % 1:  # also of what is not finite
        raise RunError(f"{path} has a train_step that is no number of steps: {value!r}")
    return int(number)


def _states(content: Any, name: str = "") -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The tensors of each mapping in a file's content, one within another, with its name."""
    if isinstance(content, Mapping):
        yield name, {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
        for key, value in content.items():
            yield from _states(value, f"{name}.{key}")


def _likelihood(state: tuple[str, dict[str, Tensor]]) -> tuple[bool, bool, int]:
    """An order of `_states`, of which a model comes last, its average only where it is alone."""
    name, tensors = state
    return any(map(READ_IN.fullmatch, tensors)), "ema" not in name, len(tensors)


def _read_file(path: Path) -> ReferenceFile:
    """Read `state.pt`, `model_<step>.pt` or a file of another trainer: only tensors, no code.

    Raises RunError, one line, for a file with anything else, a truncated one, or one with the
    layout of neither code.
    """
    if problem := why_not_one_file(path):
        raise RunError(f"checkpoint {problem}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(_NUMPY):
            warnings.simplefilter("ignore")  # about what it then rejects
            if path.suffix.lower() == ".safetensors":
                data: Any = safetensors.torch.load(content)
            else:
                data = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # of any kind: the file may contain anything
        if match := re.search(r"GLOBAL ([\w.]+)", str(error)):
            reason = f"holds {match[1]}, not tensors alone: it could run code and is refused"
            raise RunError(f"{path} {reason}") from None
        raise RunError(f"{path} is no checkpoint that can be read, or a part of one") from None
    # A file may hold optimisers and averages beside the model, under any names.
    _, tensors = max(_states(data), key=_likelihood, default=("", {}))
    if not tensors:
        raise RunError(f"{path} holds no state of a model: tensors by name")
    steps = [data[name] for name in _STEPS if data.get(name) is not None]
    step = _step(path, steps[0]) if steps else None
    if step is None and (number := re.fullmatch(r"model_(\d+)", path.stem)):
        step = int(number[1])
    try:
        reference = read_reference(tensors)
    except (ValueError, RuntimeError) as error:
        raise RunError(f"{path} {one_line(error)}") from None
    return ReferenceFile(path, hashlib.sha256(content).hexdigest(), step, reference)
