"""Read a checkpoint file of a reference code: its tensors, its form and its step.

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
    """The content of a checkpoint file: `form` describes its layout; `step`, as its code counts, is
    None where neither the file nor its name gives it."""

    path: Path
    sha256: str
    form: str
    step: int | None
    reference: Reference

    def facts(self) -> dict[str, Any]:
        """The settings that the tensors determine, by our keys."""
        reference = self.reference
        facts: dict[str, Any] = {
            "task.dims": reference.dims,
            "model.n_layer": reference.n_layer,
            "model.n_embd": reference.n_embd,
            "model.n_positions": reference.n_positions,
        }
        if reference.code.startswith("dtsip"):
            facts["model"] = "standard"  # the code has no other
        if self.step is not None:
            facts["training.steps"] = max(self.step, 1)
        return facts


def read_reference_file(path: Path) -> ReferenceFile:
    """Read `state.pt` or `model_<step>.pt`: only tensors, no code.

    Raises RunError, one line, for a file with anything else, a truncated one, or one with the
    layout of neither code.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what it then rejects
            data = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # of any kind: the file may contain anything
        if match := re.search(r"GLOBAL ([\w.]+)", str(error)):
            reason = f"holds {match[1]}, not tensors alone: it could run code and is refused"
            raise RunError(f"{path} {reason}") from None
        raise RunError(f"{path} is no checkpoint that can be read, or a part of one") from None
    form, tensors, step = _unpack(data)
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
    return ReferenceFile(path, hashlib.sha256(content).hexdigest(), form, step, reference)


def _unpack(data: Any) -> tuple[str, Any, Any]:
    """The form, the state dict and the step of a file of either code."""
    if isinstance(data, dict) and "model_state_dict" in data:
        return "a training state", data["model_state_dict"], data.get("train_step")
    if isinstance(data, dict) and isinstance(data.get("model"), dict):
        return "a state dict under 'model'", data["model"], None
    return "a state dict", data, None


def _are_tensors(state: Any) -> bool:
    return isinstance(state, Mapping) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    )


def _first_keys(state: Any) -> str:
    if not isinstance(state, Mapping):
        return f"it is a {type(state).__name__}"
    return "it begins with " + (", ".join(str(key) for key in [*state][:3]) or "nothing")
