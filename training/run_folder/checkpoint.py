"""Checkpoints: tensors in safetensors, a JSON beside them with their checksum and the configuration
of the run. No pickle, ever.

A checkpoint is `checkpoints/00001000.safetensors` and, written after it, `00001000.json`; without
the latter, or with another checksum, it does not count.
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

from reloop.conf.checksum import checksum_of

from .files import write_bytes, write_json

_KEPT = 2
_FORMAT = 2  # 1 had neither a configuration nor a checksum of its JSON
_NAME = re.compile(r"(\d+)\.json")
_OURS = re.compile(r"(\d+)\.(json|safetensors)((\.\w+)?\.partial)?")


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read: which file, and what is wrong with it. One line."""


class Checkpoint(NamedTuple):
    """What a run had become after `step` steps."""

    step: int
    tensors: dict[str, Tensor]
    config: Mapping[str, Any] | None = None  # its run's, as plain values

    def weights(self) -> dict[str, Tensor]:
        """The weights that a run is measured by, as the model's load_state_dict wants them: their
        moving averages where it keeps any (`training.ema_decay`), else those of its last step."""
        return self.last_weights() | self._under("average.")

    def last_weights(self) -> dict[str, Tensor]:
        """The weights after the last step, which training goes on from."""
        return self._under("model.")

    def _under(self, prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def save_checkpoint(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any] | None = None,
) -> None:
    """Write the checkpoint of `step`, with the configuration (plain values) of the run that it is
    of, if it is a run's; remove all but it and the one before it, and what an interrupted writer
    left."""
    folder.mkdir(exist_ok=True)
    content = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    )
    path = _tensors_path(folder, step)
    write_bytes(path, content)
    digest = hashlib.sha256(content).hexdigest()
    facts = {"format": _FORMAT, "step": step, "sha256": digest, "config": config}
    write_json(path.with_suffix(".json"), facts | {"checksum": checksum_of(facts)})
    # A later one than this was damaged, or training would have gone on from it.
    kept = [saved for saved in saved_steps(folder) if saved <= step][-_KEPT:]
    stems = {_tensors_path(folder, saved).stem for saved in kept}
    # The JSON first: a checkpoint without it does not count.
    for old in sorted(folder.glob("[0-9]*"), key=lambda path: path.suffix != ".json"):
        name = _OURS.fullmatch(old.name)
        if name and (name[1] not in stems or old.suffix == ".partial"):
            old.unlink()


def saved_steps(folder: Path) -> list[int]:
    """The steps with a finished checkpoint, oldest first."""
    names = (_NAME.fullmatch(path.name) for path in folder.glob("[0-9]*.json"))
    return sorted(int(name[1]) for name in names if name and f"{int(name[1]):08d}" == name[1])


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the checkpoint whose tensors stand at `path`, after comparing its checksum.

    Raises CheckpointError for a file that is missing, altered, or no safetensors at all.
    """
    try:
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        content = path.read_bytes()
        digest, step = _checked(facts)
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


def _checked(facts: dict[str, Any]) -> tuple[str, int]:
    """The tensors' sha256 and the step that a checkpoint's JSON states; ValueError, KeyError or
    TypeError where it was altered."""
    known = {"format", "step", "sha256"}
    if facts["format"] == 1 and set(facts) != known:
        raise ValueError
    if facts["format"] != 1:
        checksum = facts.pop("checksum")
        if facts["format"] != _FORMAT or checksum != checksum_of(facts):
            raise ValueError
    return str(facts["sha256"]), int(facts["step"])


def newest_checkpoint(
    folder: Path, config: Mapping[str, Any] | None = None
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be read, and what is wrong with newer ones: where the run's
    configuration (plain values) is given, also that they are of another run, or that their weights
    are not finite.

    Training may save and remove checkpoints meanwhile: where they have changed, they are read
    again.
    """
    while True:
        steps, problems = saved_steps(folder), list[str]()
        for step in reversed(steps):
            path = _tensors_path(folder, step)
            try:
                found = load_checkpoint(path)
            except CheckpointError as error:
                problems.append(str(error))
                continue
            if config is None or not (problem := _unfit(found, config)):
                return found, problems
            problems.append(f"{path} {problem}")
        if saved_steps(folder) == steps:
            return None, problems


def _unfit(checkpoint: Checkpoint, config: Mapping[str, Any]) -> str:
    """Why a checkpoint cannot be one of the run with this configuration."""
    own = checkpoint.config
    if own is not None and checksum_of(own) != checksum_of(config):
        return "is of a run of other settings"
    for name, weights in checkpoint.weights().items():
        if not bool(weights.isfinite().all()):
            return f"has weights that are not finite ({name})"
    return ""


def _tensors_path(folder: Path, step: int) -> Path:
    return folder / f"{step:08d}.safetensors"
