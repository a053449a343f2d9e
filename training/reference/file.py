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

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from looplab.models.reference import Reference, read_reference

from ..run_folder.run import RunError

# Where a file keeps the state dict and the step: both codes, Lightning, forks.
_CONTAINERS = ("model", "state_dict", "module", "net", "ema_model")
_STEPS = ("train_step", "global_step", "step", "iteration", "iter_num")
_SCALAR = np.float64(0).__reduce__()[0]  # what makes a number of numpy from its bytes
_NUMPY: list[Any] = [
    *((_SCALAR, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    np.dtype,
    *{type(np.dtype(kind)) for kind in ("i4", "i8", "f4", "f8", "?")},
]


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
            data = _load(path, content)
    except Exception as error:  # of any kind: the file may contain anything
        if match := re.search(r"GLOBAL ([\w.]+)", str(error)):
            reason = f"holds {match[1]}, not tensors alone: it could run code and is refused"
            raise RunError(f"{path} {reason}") from None
        raise RunError(f"{path} is no checkpoint that can be read, or a part of one") from None
    form, tensors, step = _unpack(data)
    if not isinstance(tensors, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in tensors.items()
    ):
        raise RunError(f"{path} holds no state of a model")
    if step is None and (number := re.fullmatch(r"model_(\d+)", path.stem)):
        step = int(number[1])
    if step is not None and (not isinstance(step, int) or step < 0):
        raise RunError(f"{path} has a train_step that is no number of steps: {step!r}")
    try:
        reference = read_reference(tensors)
    except ValueError as error:
        raise RunError(f"{path} {error}") from None
    return ReferenceFile(path, hashlib.sha256(content).hexdigest(), form, step, reference)


def _load(path: Path, content: bytes) -> Any:
    """Tensors, and numbers of numpy, in containers: nothing else is made of the file."""
    if path.suffix == ".safetensors":
        return safetensors.torch.load(content)
    with torch.serialization.safe_globals(_NUMPY):
        return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")


def _unpack(data: Any) -> tuple[str, Any, Any]:
    """The form, the state dict and the step of a file of either code, or of a fork or a trainer."""
    if not isinstance(data, Mapping):
        return "a state dict", data, None
    step = next((data[name] for name in _STEPS if name in data), None)
    if isinstance(step, np.generic) or (isinstance(step, Tensor) and step.numel() == 1):
        step = step.item()
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if "model_state_dict" in data:
        return "a training state", data["model_state_dict"], step
    for name in _CONTAINERS:
        if isinstance(data.get(name), Mapping):
            return f"a state dict under {name!r}", data[name], step
    return "a state dict", data, None
