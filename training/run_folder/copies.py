"""Run folders made from a run: its snapshots, as it was after chosen steps (`training.snapshots`),
kept for good; and the folder that ships with the project, without its environment.

for step, path in snapshots_of("runs/NAME").items():
    run = load_run(path)                         # with the weights after that step
ship(Path("runs/NAME"), Path("models/checkpoints/linear"))

A snapshot is a run folder in the run folder, snapshots/00000400, with configuration, environment,
data and weights, so that every command that measures a run measures it too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from looplab.conf.build import config_to_mapping
from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import read_config
from looplab.conf.schema import Config

from .checkpoint import newest_checkpoint, save_checkpoint, saved_steps
from .data import copy_kept
from .files import write_bytes

_WEIGHTS = ("model.", "average.")
_COPIED = ("config.yaml", "environment.json")
_GROUPS = (  # of the configuration that ships
    *("task", "model", "loops", "curriculum", "training", "evaluation"),
    *("seed", "scale", "recipe"),
)


def keep_snapshot(
    run: Path, step: int, tensors: Mapping[str, Tensor], config: Mapping[str, Any]
) -> None:
    """Write the weights among a trainer's tensors, with the configuration of their run."""
    folder = run / "snapshots" / f"{step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        with suppress(FileNotFoundError):
            write_bytes(folder / name, (run / name).read_bytes())
    copy_kept(run, folder)
    weights = {name: value for name, value in tensors.items() if name.startswith(_WEIGHTS)}
    save_checkpoint(folder / "checkpoints", step, weights, config)


def snapshots_of(run: str | PathLike[str]) -> dict[int, Path]:
    """The folders of a run's snapshots by step, in their order; empty for a run without any."""
    folders = sorted((Path(run) / "snapshots").glob("[0-9]*"))
    steps = {folder: saved_steps(folder / "checkpoints") for folder in folders}
    return {found[0]: folder for folder, found in steps.items() if found}


def ship(run: Path, folder: Path, add: Callable[[Path], None] = lambda folder: None) -> Path:
    """Replace `folder`, with the files that `add` writes to it; its path. Raises ConfigError,
    before anything is written, for a folder that is no run or is damaged."""
    config = read_config(run)
    checkpoint, problems = newest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        problem = f"{run} has no checkpoint that can be read"
        raise ConfigError("run", "; ".join([problem, *problems]))
    temporary = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    weights = {f"model.{name}": tensor for name, tensor in checkpoint.weights().items()}
    mapping = config_to_mapping(Config(**{part: getattr(config, part) for part in _GROUPS}))
    save_checkpoint(temporary / "checkpoints", checkpoint.step, weights, mapping)
    write_bytes(temporary / "config.yaml", yaml.safe_dump(mapping, sort_keys=False).encode())
    copy_kept(run, temporary)
    add(temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return folder
