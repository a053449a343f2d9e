"""Load a run folder, or only its model, from Python.

run = load_run("runs/sparse_linear-looped-seed0-1a2b3c4d")
run.model(Prompts(xs, ys), loops=30, window=30)                      # [30, B, n]
run = from_pretrained("user/name")                                   # of the Hugging Face hub
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from looplab.conf.checks.folders import is_writable
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, one_line
from looplab.conf.saved import read_config, read_mapping, unpacked
from looplab.conf.schema import Config
from looplab.models import Model
from looplab.models.backends import use_backend
from looplab.tasks import task_class
from looplab.training.assemble import model_from
from looplab.training.device import torch_defaults
from looplab.training.run_folder.checkpoint import CheckpointError, newest_checkpoint
from looplab.training.run_folder.data import kept_vocabulary, task_in
from looplab.training.run_folder.run import Run, RunError, RunFolder


@dataclass(frozen=True)
class LoadedModel:
    """A trained model after `step` steps, on the CPU and in eval mode, and the configuration of its
    run."""

    path: Path
    config: Config
    model: Model
    step: int


@torch_defaults()
def load_run(path: str | PathLike[str]) -> Run:
    """Load a run with the weights of its newest undamaged checkpoint, on the CPU, in eval mode.

    Parameters
    ----------
    path : str or path
        A run folder, or a model that comes with the project, as `shipped/linear`.

    Raises
    ------
    ConfigError
        For a folder that is no run.
    RunError
        For one without a readable checkpoint, or with one that does not fit its configuration.

    Examples
    --------
    >>> from looplab import load_run
    >>> load_run("shipped/linear").config.task.dims
    10
    """
    loaded = load_model(path)
    task = task_in(loaded.path, loaded.config)
    return Run(loaded.path, loaded.config, task, loaded.model, loaded.step)


def run_of(run: Run | str | PathLike[str]) -> Run:
    """The run itself, or that of a path; raises as `load_run`."""
    return run if isinstance(run, Run) else load_run(run)


@contextmanager
def writable(run: Run) -> Iterator[Run]:
    """The run, to be measured. Where its folder cannot be written in, as somebody else's, it is one
    of links to its files for the while. A line then says how to keep what is measured."""
    if is_writable(run.path):
        yield run
        return
    print(
        f"{run.path} cannot be written in: nothing new is kept; run=COPY keeps it, after "
        f"cp -r --no-preserve=mode {run.path} COPY",
        flush=True,
    )
    home = run.path.resolve()
    with TemporaryDirectory() as place:
        for file in home.rglob("*"):
            if file.is_file() and not file.name.startswith("."):  # locks stay the owner's
                link = Path(place, home.name, file.relative_to(home))
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file)
        yield replace(run, path=Path(place, home.name))


def from_pretrained(name: str | PathLike[str], **options: Any) -> Run:
    """Load a run as `load_run` does, or from the Hugging Face hub.

    Parameters
    ----------
    name : str or path
        A run folder; else `user/name` of the hub, which is downloaded once.
    **options
        Of `huggingface_hub.snapshot_download`, as `revision`.

    Raises
    ------
    ConfigError
        Where the hub has no such model or cannot be reached, and where the package huggingface_hub
        is not installed; else as `load_run`.

    Examples
    --------
    >>> from looplab import from_pretrained
    >>> from_pretrained("shipped/linear").task.name
    'linear'
    """
    path = unpacked(name)
    if not path.exists():
        install = "'huggingface_hub==2.4.0'"
        hub = optional(str(name), "huggingface_hub", "snapshot_download", install)
        try:
            path = Path(hub.snapshot_download(str(name), **options))
        except (OSError, ValueError) as error:  # as all of the package's own are
            problem = f"is no folder, and not to be had from the hub: {one_line(error)}"
            raise ConfigError(str(name), problem) from None
        if read_mapping(path).get("plugins"):
            raise ConfigError(str(name), f"holds code, which is not run: read it, load_run({path})")
    return load_run(path)


@torch_defaults()
def load_model(path: str | PathLike[str], warn: Callable[[str], object] = print) -> LoadedModel:
    """A run folder's model, from configuration and weights only, without its task's data. `warn`
    is called with a line on each damaged or altered file for which there is a replacement.

    Raises as `load_run`.
    """
    path = unpacked(path)
    config = read_config(path)
    checkpoint, problems = newest_checkpoint(RunFolder(path).checkpoints)
    if checkpoint is None:
        raise RunError("; ".join([f"{path} has no checkpoint that can be read", *problems]))
    for problem in problems:
        warn(f"{problem}; the one of step {checkpoint.step} is used")
    weights = checkpoint.weights()
    outputs = len(weights["read_out.bias"]) if "read_out.bias" in weights else 1
    outputs -= config.loops.halt is not None  # the halting logit
    vocabulary = kept_vocabulary(path) if task_class(config.task.name).is_text else 0
    try:
        model = model_from(config, 0 if outputs == 1 else outputs, weights, vocabulary)
    except CheckpointError as error:
        raise RunError(f"{path}: its checkpoint {error}") from None
    use_backend(model, "cpu")  # as it is evaluated there
    return LoadedModel(path, config, model, checkpoint.step)
