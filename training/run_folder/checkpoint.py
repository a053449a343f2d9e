"""Checkpoints: tensors in safetensors, and a JSON with their checksum. No pickle.

A checkpoint is `checkpoints/00001000.safetensors` and, written after it, `00001000.json`. Without
the latter, or with another checksum, it is invalid. A folder that travels (evaluation/export/) has
its tensors in model.safetensors, where other libraries look for them.

A snapshot is the run as it was after a chosen step (`training.snapshots`), kept for good. It is a
run folder in the run folder, snapshots/00000400, with configuration, environment, data and weights.
So every command that measures a run measures it too.

for step, path in snapshots_of("runs/NAME").items():
    run = load_run(path)                         # with the weights after that step
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from looplab.conf.checksum import checksum_of
from looplab.conf.mistakes import CheckpointError as CheckpointError

from .data import copy_kept
from .files import write_bytes, write_json

_MOST_CHECKPOINTS = 2
_FORMAT = 2  # 1 had no checksum of its JSON
_JSON_NAME = re.compile(r"(\d+)\.json")
_FILE_NAME = re.compile(r"(\d+)\.(json|safetensors)((\.\w+)?\.partial)?")
_WEIGHTS = ("model.", "average.")
_COPIED = ("config.yaml", "environment.json")
EXPORTED = "model.safetensors"


class Checkpoint(NamedTuple):
    """The state of a run after `step` steps."""

    step: int
    tensors: dict[str, Tensor]

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


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Write the checkpoint of `step`; remove all but it and the one before it, and the partial
    files of an interrupted writer."""
    folder.mkdir(parents=True, exist_ok=True)
    content = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        metadata={"format": "pt"},  # which transformers asks for
    )
    path = _tensors_path(folder, step)
    write_bytes(path, content)
    digest = hashlib.sha256(content).hexdigest()
    facts = {"format": _FORMAT, "step": step, "sha256": digest}
    # Last: the JSON is what makes the checkpoint valid, so that a kill before it loses nothing.
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
    steps = []
    for path in folder.glob("[0-9]*.json"):
        match = _JSON_NAME.fullmatch(path.name)
        if match and f"{int(match[1]):08d}" == match[1]:
            steps.append(int(match[1]))
    return sorted(steps)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the checkpoint with its tensors at `path`, or those of a folder that travels, after a
    comparison of its checksum.

    Raises CheckpointError for a file that is missing, altered, or no safetensors file.
    """
    exported = path.parents[1] / EXPORTED
    file = exported if exported.exists() else path
    try:
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        content = file.read_bytes()
        # Format 1 has no checksum of its own.
        if facts["format"] != 1 and facts.pop("checksum") != checksum_of(facts):
            raise ValueError
        digest = facts["sha256"]
        step = int(facts["step"])
        if facts["format"] not in (1, _FORMAT) or step != int(path.stem):
            raise ValueError
    except FileNotFoundError as error:
        raise CheckpointError(f"{error.filename} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, RecursionError):
        raise CheckpointError(f"{path.with_suffix('.json')} is damaged") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise CheckpointError(f"{file} is damaged: its checksum is not the one it was saved with")
    try:
        return Checkpoint(step, safetensors.torch.load(content))
    except (SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"{file} is not a safetensors file ({error})") from None


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be read, and the problems of newer ones.

    Training may save and remove checkpoints meanwhile: after a change, they are read again.
    """
    while True:
        steps = saved_steps(folder)
        problems: list[str] = []
        for step in reversed(steps):
            try:
                return load_checkpoint(_tensors_path(folder, step)), problems
            except CheckpointError as error:
                problems.append(str(error))
        # Only where nothing has been saved meanwhile are all of them really unreadable.
        if saved_steps(folder) == steps:
            return None, problems


def _tensors_path(folder: Path, step: int) -> Path:
    return folder / f"{step:08d}.safetensors"


def keep_snapshot(run: Path, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Write the weights among a trainer's tensors as a run folder in the run folder."""
    folder = run / "snapshots" / f"{step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        with suppress(FileNotFoundError):
            write_bytes(folder / name, (run / name).read_bytes())
    copy_kept(run, folder)
    weights = {name: value for name, value in tensors.items() if name.startswith(_WEIGHTS)}
    save_checkpoint(folder / "checkpoints", step, weights)


def snapshots_of(run: str | PathLike[str]) -> dict[int, Path]:
    """Find the snapshots of a run.

    Parameters
    ----------
    run : str or path
        Its folder.

    Returns
    -------
    dict
        Their folders by step, in their order; `load_run` takes each. Empty for a run without any.

    Examples
    --------
    >>> from looplab import snapshots_of
    >>> snapshots_of("runs/NAME")
    {}
    """
    folders = sorted((Path(run) / "snapshots").glob("[0-9]*"))
    steps = {folder: saved_steps(folder / "checkpoints") for folder in folders}
    return {saved[0]: folder for folder, saved in steps.items() if saved}
