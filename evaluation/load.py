"""Open a run folder from Python.

run = load_run("runs/sparse_linear-looped-seed0-1a2b3c4d")
run.model(Prompts(xs, ys), loops=30, window=30)                      # [30, B, n]
"""

from __future__ import annotations

import re
from os import PathLike

from reloop.conf.build import config_from_mapping
from reloop.conf.saved import checkpoint_config, read_mapping
from reloop.conf.schema import Config
from reloop.conf.shipped import unpacked
from reloop.training.assemble import build_task, model_from
from reloop.training.run_folder.checkpoint import CheckpointError, newest_checkpoint
from reloop.training.run_folder.run import Run, RunError, RunFolder, run_folder

_HASHED = re.compile(r"-seed\d+-[0-9a-f]{8}$")  # the end of a run folder's name


def load_run(path: str | PathLike[str]) -> Run:
    """A run with its newest good checkpoint's weights, on the CPU, in eval mode; `shipped/linear`
    and the like are the models that come with the project (conf/shipped.py).

    Raises ConfigError for a folder that is no run, RunError where it has no checkpoint that can be
    read, or one that does not fit its configuration.
    """
    path = unpacked(path)
    folder = RunFolder(path)
    mapping = read_mapping(folder.path, print)
    config = config_from_mapping(mapping)
    if doubt := _doubt(folder, config):
        print(doubt, flush=True)
    checkpoint, problems = newest_checkpoint(folder.checkpoints, mapping)
    if checkpoint is None:
        raise RunError("; ".join([f"{path} has no checkpoint that can be read", *problems]))
    for problem in problems:
        print(f"{problem}; the one of step {checkpoint.step} is used", flush=True)
    task = build_task(config)
    try:
        model = model_from(config, task.classes, checkpoint.weights())
    except CheckpointError as error:
        raise RunError(f"{path}: its checkpoint {error}") from None
    return Run(path, config, task, model, checkpoint.step)


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
