"""Read a checkpoint file of a reference code: its tensors, in which form, after how many steps.

file = read_reference_file(Path("results2/…/state.pt"))
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reloop.models.reference import Reference, read_reference

from ..run_folder.run import RunError


@dataclass(frozen=True)
class ReferenceFile:
    """A checkpoint as it was read: `holds` says in which form; `step`, as its code counts, is None
    where neither the file nor its name says it."""

    path: Path
    sha256: str
    holds: str
    step: int | None
    reference: Reference

    def facts(self) -> dict[str, Any]:
        """What cannot be otherwise, by our keys."""
        reference = self.reference
        facts: dict[str, Any] = {
            "task.dims": reference.dims,
            "model.n_layer": reference.n_layer,
            "model.n_embd": reference.n_embd,
            "model.n_positions": reference.n_positions,
        }
        if reference.code.startswith("dtsip"):
            facts["model"] = "standard"  # it knows no other
        if self.step is not None:
            facts["training.steps"] = max(self.step, 1)
        return facts


def read_reference_file(path: Path) -> ReferenceFile:
    """Read `state.pt` or `model_<step>.pt`: tensors, and nothing that could run.

    Raises RunError, one line, for a file that holds anything else, is cut short or is laid out like
    neither code's.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it then refuses
            loaded = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # of any kind: the file may hold anything
        if named := re.search(r"GLOBAL ([\w.]+)", str(error)):
            reason = f"holds {named[1]}, not tensors alone: it could run code and is refused"
            raise RunError(f"{path} {reason}") from None
        raise RunError(f"{path} is no checkpoint that can be read, or a part of one") from None
    holds, tensors, step = _unpack(loaded)
    if not _are_tensors(tensors):
        raise RunError(f"{path} holds no state of a model: {_first_keys(tensors)}")
    if step is None and (number := re.fullmatch(r"model_(\d+)", path.stem)):
        step = int(number[1])
    if step is not None and (not isinstance(step, int) or step < 0):
        raise RunError(f"{path} has a train_step that is no number of steps: {step!r}")
    try:
        reference = read_reference(tensors)
    except ValueError as error:
        raise RunError(f"{path} {error}") from None
    return ReferenceFile(path, hashlib.sha256(content).hexdigest(), holds, step, reference)


def _unpack(loaded: Any) -> tuple[str, Any, Any]:
    """The form, the state dict and the step, in each of the forms that the codes write."""
    if isinstance(loaded, dict) and "model_state_dict" in loaded:
        return "a training state", loaded["model_state_dict"], loaded.get("train_step")
    if isinstance(loaded, dict) and isinstance(loaded.get("model"), dict):
        return "a state dict under 'model'", loaded["model"], None
    return "a state dict", loaded, None


def _are_tensors(found: Any) -> bool:
    return isinstance(found, Mapping) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()
    )


def _first_keys(found: Any) -> str:
    if not isinstance(found, Mapping):
        return f"it is a {type(found).__name__}"
    return "it begins with " + (", ".join(str(key) for key in [*found][:3]) or "nothing")
