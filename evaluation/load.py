"""Open a run folder from Python.

run = load_run("runs/sparse_linear-looped-seed0-1a2b3c4d")
run.model(Prompts(xs, ys), loops=30, window=30)                      # [30, B, n]
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from conf.saved import read_config
from training.assemble import build_task, model_from
from training.checkpoint import CheckpointError, newest_checkpoint
from training.run import Run, RunError, RunFolder


def load_run(path: str | PathLike[str]) -> Run:
    """A run with its newest good checkpoint's weights, on the CPU, in eval mode.

    Raises ConfigError for a folder that is no run, RunError where it has no checkpoint that can be
    read, or one that does not fit its configuration.
    """
    folder = RunFolder(Path(path))
    config = read_config(folder.path, print)
    checkpoint, problems = newest_checkpoint(folder.checkpoints)
    if checkpoint is None:
        raise RunError("; ".join([f"{path} has no checkpoint that can be read", *problems]))
    for problem in problems:
        print(f"{problem}; the one of step {checkpoint.step} is used", flush=True)
    task = build_task(config)
    try:
        model = model_from(config, task.classes, checkpoint.weights())
    except CheckpointError as error:
        raise RunError(f"{path}: its checkpoint {error}") from None
    return Run(Path(path), config, task, model, checkpoint.step)
