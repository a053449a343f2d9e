"""Where a run computes, how exactly and by what code, decided once and said with the reason."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import torch

from reloop.conf.mistakes import ConfigError
from reloop.models import Model
from reloop.models.backends import use_backend
from reloop.models.cpu import keep_memory

# The least compute capability of a GPU: of our kernels (bf16 products), of torch.compile.
_LEAST_CAPABILITY = {"triton": (8, 0), "compile": (7, 0)}
_LEAST_SHARED = 163 * 1024  # bytes a block may have on an A100, which the kernels are cut to


@dataclass(frozen=True)
class Placement:
    """A device, the precision of matrix products on it (fp32, tf32 or bf16; weights, sums and
    statistics are always fp32), the backend that makes the loops, and one line that says why."""

    device: torch.device
    precision: str
    backend: str
    why: str

    @property
    def compute_dtype(self) -> torch.dtype | None:
        """What a model's matrix products are cast to; None where nothing is cast."""
        return torch.bfloat16 if self.precision == "bf16" else None

    def prepare(self, model: Model) -> Model:
        """Move a model here and let it compute as was chosen. For the whole process this allows or
        forbids TF32 products on CUDA, and with the backend `cpu` keeps memory once used."""
        if self.device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
        if self.backend == "cpu":
            keep_memory()
        model.compute_dtype = self.compute_dtype
        use_backend(model, self.backend)
        return model.to(self.device)


def place(device: str, precision: str, backend: str = "auto") -> Placement:
    """Choose for `auto`; raise ConfigError for what this machine does not have.

    auto takes CUDA where there is some. In fp32 on a CPU the products are exact; on CUDA auto means
    TF32, which is what the reference trains with. The backend is cpu on a CPU, triton where its
    kernels can run on a GPU, else eager.
    """
    if device == "auto":
        chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        why = "a GPU is there" if chosen.type == "cuda" else "no GPU that PyTorch can use"
    else:
        chosen, why = _named(device), "as asked"
    if precision == "auto":
        precision = "tf32" if chosen.type == "cuda" else "fp32"
        why += f"; {precision} is the reference's there" if precision == "tf32" else "; exact"
        if chosen.type == "cpu" and _multiplies_bf16():
            why += "; precision=bf16 makes wide models faster on this processor"
    elif precision == "tf32" and chosen.type != "cuda":
        raise ConfigError("precision", f"cannot be tf32 on {chosen}: it needs an NVIDIA GPU")
    backend, reason = _choose_backend(backend, chosen)
    name = (
        torch.cuda.get_device_name(chosen)
        if chosen.type == "cuda"
        else f"{chosen}, {torch.get_num_threads()} threads"
    )
    why = f"device {name}, precision {precision} ({why}), backend {backend} ({reason})"
    return Placement(chosen, precision, backend, why)


def place_exactly(device: str) -> Placement:
    """Where a model is measured: fp32 without TF32, by PyTorch's own operations or, on a CPU, the
    backend `cpu`. Raises ConfigError for a device that this machine does not have."""
    placement = place(device, "fp32", "eager")
    return replace(placement, backend="cpu") if placement.device.type == "cpu" else placement


def _named(device: str) -> torch.device:
    known = device.partition(":")[0] in ("cpu", "cuda", "mps")
    try:
        if known:
            return torch.empty(1, device=device).device
    except (RuntimeError, AssertionError):
        pass
    raise ConfigError("device", f"cannot be {device!r} on this machine")


def _multiplies_bf16() -> bool:
    """Whether the processor has bfloat16 products of its own."""
    can = torch.cpu.get_capabilities()
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))


def _choose_backend(asked: str, device: torch.device) -> tuple[str, str]:
    """The backend and the reason; ConfigError for one that cannot run here."""
    if asked == "auto":
        if device.type == "cpu":
            return "cpu", "PyTorch, with oneDNN's products; triton needs an NVIDIA GPU"
        if device.type != "cuda":
            return "eager", "PyTorch's own operations; triton needs an NVIDIA GPU"
        if lacking := _lacking("triton", device):
            return "eager", f"triton {lacking}"
        return "triton", "our own kernels for this GPU"
    if asked != "eager" and (lacking := _lacking(asked, device)):
        raise ConfigError("backend", f"cannot be {asked} on {device}: it {lacking}")
    return asked, "as asked"


def _lacking(backend: str, device: torch.device) -> str | None:
    """What a backend but eager needs and this machine has not, as in "it needs …"."""
    if backend == "cpu":
        return None if device.type == "cpu" else "needs a CPU"
    if device.type == "cpu" and backend == "compile":
        # What torch.compile itself looks for.
        return _lacking_compiler("CXX", "clang++" if sys.platform == "darwin" else "g++")
    interpreted = device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if device.type != "cuda" and not interpreted:
        if backend == "compile":
            return "needs an NVIDIA GPU or a CPU"
        return "needs an NVIDIA GPU (TRITON_INTERPRET=1 runs it on a CPU, slowly, to check it)"
    if find_spec("triton") is None:
        return "needs the package triton, which is not installed"
    if interpreted:
        return None
    has, least = torch.cuda.get_device_capability(device), _LEAST_CAPABILITY[backend]
    if has < least:
        return "needs compute capability {}.{}, and this GPU has {}.{}".format(*least, *has)
    properties = torch.cuda.get_device_properties(device)
    shared = getattr(properties, "shared_memory_per_block_optin", _LEAST_SHARED)
    if backend == "triton" and shared < _LEAST_SHARED:
        return (
            f"needs {_LEAST_SHARED // 1024} KiB of shared memory, and this GPU has {shared // 1024}"
        )
    # Triton compiles the code that launches its kernels on the machine that runs them.
    return _lacking_compiler("CC", "gcc", "clang")


def _lacking_compiler(variable: str, *usual: str) -> str | None:
    """A compiler, named by an environment variable or one of the usual, and what it includes."""
    named = os.environ.get(variable)
    if not any(map(shutil.which, [named] if named else usual)):
        language = "C" if variable == "CC" else "C++"
        return (
            f"needs a {language} compiler ({' or '.join(usual)}, or the one that {variable} names)"
        )
    if not Path(sysconfig.get_path("include", "posix_prefix"), "Python.h").exists():
        return "needs Python's headers (the package python3-dev, or the like)"
    return None
