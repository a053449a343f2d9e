"""Open a run folder, or the model in it alone, from Python.

run = load_run("runs/sparse_linear-looped-seed0-1a2b3c4d")
run.model(Prompts(xs, ys), loops=30, window=30)                      # [30, B, n]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from reloop.conf.build import config_from_mapping
from reloop.conf.saved import checkpoint_config, read_mapping
from reloop.conf.schema import Config
from reloop.conf.shipped import unpacked
from reloop.models import Model
from reloop.training.assemble import build_task, model_from
from reloop.training.run_folder.checkpoint import (
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    newest_checkpoint,
)
from reloop.training.run_folder.run import Run, RunError, RunFolder, run_folder

_HASHED = re.compile(r"-seed\d+-[0-9a-f]{8}$")  # the end of a run folder's name


@dataclass(frozen=True)
class LoadedModel:
    """A trained model after `step` steps, on the CPU and in eval mode, and the configuration of its
    run; `classes` of its task, 0 for a regression."""

    path: Path
    config: Config
    model: Model
    step: int

    @property
    def classes(self) -> int:
        return self.model.spec.classes


def load_run(path: str | PathLike[str]) -> Run:
    """A run with its newest good checkpoint's weights, on the CPU, in eval mode; `shipped/linear`
    and the like are the models that come with the project (conf/shipped.py).

    Raises ConfigError for a folder that is no run, RunError where it has no checkpoint that can be
    read, or one that does not fit its configuration.
    """
    loaded = load_model(path)
    task = build_task(loaded.config)
    if task.classes != loaded.classes:
        raise RunError(
            f"{loaded.path}: its checkpoint does not fit its configuration: {loaded.classes} "
            f"classes, and task={loaded.config.task.name} has {task.classes}"
        )
    return Run(loaded.path, loaded.config, task, loaded.model, loaded.step)


def load_model(path: str | PathLike[str], say: Callable[[str], object] = print) -> LoadedModel:
    """The model of a run folder, or of one checkpoint (.safetensors) in it, from configuration and
    weights alone: its task's data need not be there. `say` is given a line on what was damaged or
    altered, and for which there is something else to take.

    Raises as `load_run`.
    """
    path = unpacked(path)
    is_file = path.suffix == ".safetensors"
    folder = RunFolder(path.parent.parent if is_file else path)
    mapping = read_mapping(folder.path, say)
    config = config_from_mapping(mapping)
    if doubt := _doubt(folder, config):
        say(doubt)
    try:
        checkpoint = load_checkpoint(path) if is_file else _newest(folder, mapping, say)
    except CheckpointError as error:
        raise RunError(str(error)) from None
    weights = checkpoint.weights()
    outputs = len(weights["read_out.bias"]) if "read_out.bias" in weights else 1
    try:
        model = model_from(config, 0 if outputs == 1 else outputs, weights)
    except CheckpointError as error:
        raise RunError(f"{path}: its checkpoint {error}") from None
    return LoadedModel(path, config, model, checkpoint.step)


def _newest(
    folder: RunFolder, mapping: Mapping[str, Any], say: Callable[[str], object]
) -> Checkpoint:
    checkpoint, problems = newest_checkpoint(folder.checkpoints, mapping)
    if checkpoint is None:
        reasons = [f"{folder.path} has no checkpoint that can be read", *problems]
        raise CheckpointError("; ".join(reasons))
    for problem in problems:
        say(f"{problem}; the one of step {checkpoint.step} is used")
    return checkpoint


def _doubt(folder: RunFolder, config: Config) -> str:
    """What speaks against a configuration that no checkpoint has a copy of, as in runs of an
    earlier version: the folder's name, which has a hash of it."""
    name, ours = folder.path.resolve().name, run_folder(config).path.name
    if checkpoint_config(folder.checkpoints) is not None or not _HASHED.search(name):
        return ""
    if name.rpartition("-")[2] == ours.rpartition("-")[2]:
        return ""
    return (
        f"{folder.path}: config.yaml does not give the hash in the folder's name: one of the two "
        "was changed, and this run is of a version that kept no copy"
    )
