"""Checkpoints: tensors in safetensors, and a JSON with their checksum and the configuration of the
run. No pickle.

A checkpoint is `checkpoints/00001000.safetensors` and, written after it, `00001000.json`; without
the latter, or with another checksum, it is invalid.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from looplab.conf.build import config_from_mapping
from looplab.conf.checksum import checksum_of

from .files import write_bytes, write_json
from .run import run_folder

_MOST_CHECKPOINTS = 2
_FORMAT = 2  # 1 had neither a configuration nor a checksum of its JSON
_JSON_NAME = re.compile(r"(\d+)\.json")
_FILE_NAME = re.compile(r"(\d+)\.(json|safetensors)((\.\w+)?\.partial)?")


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read: the file, and the problem. One line."""


class Checkpoint(NamedTuple):
    """The state of a run after `step` steps."""

    step: int
    tensors: dict[str, Tensor]
    config: Mapping[str, Any] | None = None  # of its run, as plain values

    def weights(self) -> dict[str, Tensor]:
        """The weights for evaluation, as a state dict of the model: their moving averages where
        there are any (`training.ema_decay`), else those of the last step."""
        return self.last_weights() | self._with_prefix("average.")

    def last_weights(self) -> dict[str, Tensor]:
        """The weights after the last step, for further training."""
        return self._with_prefix("model.")

    def _with_prefix(self, prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def save_checkpoint(
    folder: Path, step: int, tensors: Mapping[str, Tensor], config: Mapping[str, Any] | None = None
) -> None:
    """Write the checkpoint of `step`, with the configuration (plain values) of its run, if any;
    remove all but it and the one before it, and the partial files of an interrupted writer."""
    folder.mkdir(exist_ok=True)
    content = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    )
    path = _tensors_path(folder, step)
    write_bytes(path, content)
    digest = hashlib.sha256(content).hexdigest()
    facts = {"format": _FORMAT, "step": step, "sha256": digest, "config": config}
    write_json(path.with_suffix(".json"), facts | {"checksum": checksum_of(facts)})
    # A later checkpoint was damaged, or training would have gone on from it.
    steps = [other for other in saved_steps(folder) if other <= step][-_MOST_CHECKPOINTS:]
    stems = {_tensors_path(folder, other).stem for other in steps}
    # The JSON first: a checkpoint without it is invalid.
    for old in sorted(folder.glob("[0-9]*"), key=lambda path: path.suffix != ".json"):
        name = _FILE_NAME.fullmatch(old.name)
        if name and (name[1] not in stems or old.suffix == ".partial"):
            old.unlink()


def saved_steps(folder: Path) -> list[int]:
    """The steps with a finished checkpoint, oldest first."""
    names = (_JSON_NAME.fullmatch(path.name) for path in folder.glob("[0-9]*.json"))
    return sorted(int(name[1]) for name in names if name and f"{int(name[1]):08d}" == name[1])


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the checkpoint with its tensors at `path`, after a comparison of its checksum.

    Raises CheckpointError for a file that is missing, altered, or no safetensors file.
    """
    try:
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        content = path.read_bytes()
        digest, step = _verify(facts)
        if step != int(path.stem):
            raise ValueError
    except FileNotFoundError as error:
        raise CheckpointError(f"{error.filename} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, RecursionError):
        raise CheckpointError(f"{path.with_suffix('.json')} is damaged") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise CheckpointError(f"{path} is damaged: its checksum is not the one it was saved with")
    try:
        return Checkpoint(step, safetensors.torch.load(content), facts.get("config"))
    except (SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path} is not a safetensors file ({error})") from None


def _verify(facts: dict[str, Any]) -> tuple[str, int]:
    """The tensors' sha256 and the step in a checkpoint's JSON; ValueError, KeyError or TypeError
    where it was altered."""
    keys = {"format", "step", "sha256"}
    if facts["format"] == 1 and set(facts) != keys:
        raise ValueError
    if facts["format"] != 1:
        checksum = facts.pop("checksum")
        if facts["format"] != _FORMAT or checksum != checksum_of(facts):
            raise ValueError
    return str(facts["sha256"]), int(facts["step"])


def newest_checkpoint(
    folder: Path, config: Mapping[str, Any] | None = None
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be read, and the problems of newer ones: with the run's
    configuration (plain values), also that they are of another run, or that their weights are not
    finite.

    Training may save and remove checkpoints meanwhile: after a change, they are read again.
    """
    while True:
        steps, problems = saved_steps(folder), list[str]()
        for step in reversed(steps):
            path = _tensors_path(folder, step)
            try:
                checkpoint = load_checkpoint(path)
            except CheckpointError as error:
                problems.append(str(error))
                continue
            if config is None or not (problem := _mismatch(checkpoint, config)):
                return checkpoint, problems
            problems.append(f"{path} {problem}")
        if saved_steps(folder) == steps:
            return None, problems


def _mismatch(checkpoint: Checkpoint, config: Mapping[str, Any]) -> str:
    """Why a checkpoint does not fit this configuration; empty where it does."""
    saved_config = checkpoint.config
    if saved_config is not None and _name(saved_config) != _name(config):
        return "is of a run of other settings"
    for name, weights in checkpoint.weights().items():
        if not bool(weights.isfinite().all()):
            return f"has weights that are not finite ({name})"
    return ""


def _name(config: Mapping[str, Any]) -> str:
    """The name of the run of these settings, which depends on those for training."""
    return run_folder(config_from_mapping(config)).path.name


def _tensors_path(folder: Path, step: int) -> Path:
    return folder / f"{step:08d}.safetensors"
