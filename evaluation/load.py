"""Open a run folder from Python.

run = load_run("runs/sparse_linear-looped-seed0-1a2b3c4d")
run.model(Prompts(xs, ys), loops=30, window=30)                      # [30, B, n]
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from conf.saved import read_config
from models import Model
from training.assemble import build_model, build_task
from training.checkpoint import newest_checkpoint
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
    model = build_model(config, task)
    try:
        model.load_state_dict(checkpoint.weights())
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{path}: its checkpoint does not fit its configuration: {reason}") from None
    check_finite(path, model)
    return Run(Path(path), config, task, model.eval(), checkpoint.step)


def check_finite(path: str | PathLike[str], model: Model) -> None:
    """Raises RunError for a model with weights that are not finite: nothing can be measured."""
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise RunError(f"{path}: the weights of its checkpoint are not finite ({name})")
