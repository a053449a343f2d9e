"""Snapshots of a run: as it was after chosen steps (`training.snapshots`), kept for good.

for step, path in snapshots_of("runs/NAME").items():
    run = load_run(path)                         # with the weights after that step

A snapshot is a run folder in the run folder, snapshots/00000400, with configuration, environment,
data and weights, so that every command that measures a run measures it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from .checkpoint import save_checkpoint, saved_steps
from .data import copy_kept
from .files import write_bytes

_WEIGHTS = ("model.", "average.")
_COPIED = ("config.yaml", "environment.json")


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
