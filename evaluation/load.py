"""Load a run folder, or only its model, from Python.

run = load_run("runs/sparse_linear-looped-seed0-1a2b3c4d")
run.model(Prompts(xs, ys), loops=30, window=30)                      # [30, B, n]
"""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from looplab.conf.build import config_from_mapping
from looplab.conf.saved import read_mapping, unpacked
from looplab.conf.schema import Config
from looplab.models import Model
from looplab.models.backends import use_backend
from looplab.tasks import task_class
from looplab.training.assemble import model_from, trained_loops
from looplab.training.run_folder.checkpoint import (
    CheckpointError,
    load_checkpoint,
    newest_checkpoint,
)
from looplab.training.run_folder.data import kept_vocabulary, task_in
from looplab.training.run_folder.run import Run, RunError, RunFolder


@dataclass(frozen=True)
class LoadedModel:
    """A trained model after `step` steps, on the CPU and in eval mode, and the configuration of its
    run; `classes` is that of its task, 0 for a regression."""

    path: Path
    config: Config
    model: Model
    step: int

    @property
    def classes(self) -> int:
        return self.model.spec.classes

    @property
    def loops(self) -> int:
        """b, the number of loops in training; a standard model's layers."""
        return trained_loops(self.config)

    @property
    def context(self) -> int:
        """The number of examples in its longest training prompts, without the query."""
        return min(self.config.task.points, self.model.spec.n_positions) - 1


def load_run(path: str | PathLike[str]) -> Run:
    """A run with the weights of its newest undamaged checkpoint, on the CPU, in eval mode; a path
    such as `shipped/linear` names a model that comes with the project (conf/saved.py).

    Raises ConfigError for a folder that is no run, RunError if it has no readable checkpoint, or
    one that does not fit its configuration.
    """
    loaded = load_model(path)
    is_checkpoint = loaded.path.suffix == ".safetensors"
    task = task_in(loaded.path.parents[1] if is_checkpoint else loaded.path, loaded.config)
    return Run(loaded.path, loaded.config, task, loaded.model, loaded.step)


def load_model(path: str | PathLike[str], warn: Callable[[str], object] = print) -> LoadedModel:
    """The model of a run folder, or of one checkpoint (.safetensors) in it, from configuration and
    weights only: its task's data are not needed. `warn` is called with a line on each damaged or
    altered file for which there is a replacement.

    Raises as `load_run`.
    """
    path = unpacked(path)
    is_checkpoint = path.suffix == ".safetensors"
    folder = RunFolder(path.parent.parent if is_checkpoint else path)
    mapping = read_mapping(folder.path)
    config = config_from_mapping(mapping)
    try:
        checkpoint = load_checkpoint(path) if is_checkpoint else None
    except CheckpointError as error:
        raise RunError(str(error)) from None
    if checkpoint is None:
        checkpoint, problems = newest_checkpoint(folder.checkpoints)
        if checkpoint is None:
            reasons = [f"{folder.path} has no checkpoint that can be read", *problems]
            raise RunError("; ".join(reasons))
        for problem in problems:
            warn(f"{problem}; the one of step {checkpoint.step} is used")
    weights = checkpoint.weights()
    outputs = len(weights["read_out.bias"]) if "read_out.bias" in weights else 1
    vocabulary = kept_vocabulary(folder.path) if task_class(config.task.name).is_text else 0
    try:
        model = model_from(config, 0 if outputs == 1 else outputs, weights, vocabulary)
    except CheckpointError as error:
        raise RunError(f"{path}: its checkpoint {error}") from None
    use_backend(model, "cpu")  # as it is evaluated there
    return LoadedModel(path, config, model, checkpoint.step)
