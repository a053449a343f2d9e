"""Device, precision and backend of a run, chosen once, with the reason."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.conf.threads import SET_TOO_LATE
from looplab.models import Model
from looplab.models.backends import use_backend
from looplab.models.cpu import has_bf16_products, keep_memory
from looplab.models.kernels.choice import (
    BACKENDS,
    INTERPRETER,
    SHIPPED,
    Choice,
    Shape,
    choose,
    own_path,
    read_table,
)
from looplab.models.kernels.variants import Variants

_LEAST_CAPABILITY = (8, 0)  # of a GPU, which has bf16 products
_LEAST_SHARED = 163 * 1024  # bytes per block on an A100, which the kernels are made for


@dataclass(frozen=True)
class Placement:
    """A device, the precision of matrix products on it (fp32, tf32, bf16, or mixed: bf16 in the
    loops without gradients and fp32 elsewhere; weights, sums and statistics are always fp32), the
    backend of the loops, and one line with the reasons. Where our kernels can run and the shape of
    the run is known, also the `choice` that the table made for it."""

    device: torch.device
    precision: str
    backend: str
    why: str = field(compare=False)
    choice: Choice | None = None

    def prepare(self, model: Model) -> Model:
        """Move a model to the device and set its precision and backend. For the whole process this
        allows or forbids TF32 products on CUDA, and with the backend `cpu` keeps freed memory."""
        if self.device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
        if self.backend == "cpu":
            keep_memory()
        model.compute_dtype = torch.bfloat16 if self.precision == "bf16" else None
        model.prefix_dtype = torch.bfloat16 if self.precision == "mixed" else None
        use_backend(model, self.backend, self.choice.variants if self.choice else None)
        return model.to(self.device)

    def as_begun(self, made_with: Mapping[str, Any], asked: str) -> "Placement":
        """The placement by which a run goes on: by the variants that `made_with`, its environment,
        has, whatever the table says today. Where `auto` was `asked` for, also by the one of triton
        and compile."""
        for record in (made_with, *made_with.get("continued", [])):
            if self.choice and record.get("backend") in BACKENDS:
                backend = record["backend"] if asked == "auto" else self.backend
                # Versions without a choice had no other variants than fused.
                kernels = record.get("kernels") or asdict(Choice())
                choice = Choice(**kernels | {"variants": Variants(**kernels["variants"])})
                why = f"{self.why.partition(', backend ')[0]}, backend {backend} (as it began)"
                return replace(self, backend=backend, choice=choice, why=why)
        return self


def place(
    device: str, precision: str, backend: str = "auto", shape: Shape | None = None
) -> Placement:
    """The placement; `auto` is resolved. Raises ConfigError for what this machine does not have,
    RunError for a damaged table of variants, which is read for the `shape` of a run.

    `auto` is CUDA if available. The precision is fp32 on a CPU, with exact products, and TF32 on
    CUDA, as in the reference's training. The backend is cpu on a CPU. It is triton where its
    kernels can run on a GPU, or compile where the table says that this is ahead. Else it is eager:
    also for bf16 on a CPU whose oneDNN has no such products.
    """
    if device == "auto":
        target = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        why = "a GPU is there" if target.type == "cuda" else "no GPU that PyTorch can use"
    else:
        target = _resolve(device)
        why = "as asked"
    if precision == "auto":
        precision = "tf32" if target.type == "cuda" else "fp32"
        why += f"; {precision} is the reference's there" if precision == "tf32" else "; exact"
    elif precision == "tf32" and target.type != "cuda":
        raise ConfigError("precision", f"cannot be tf32 on {target}: it needs an NVIDIA GPU")
    asked = backend
    backend, reason = _choose_backend(backend, target, precision)
    choice = None
    if shape and backend == "triton":
        rows = read_table(own_path()) + read_table(SHIPPED)  # in this order: one's own goes first
        choice = choose(capability(target), precision, shape, rows)
        if asked == "auto" and choice.backend == "compile":
            backend = "compile"
            reason = "ahead of our own kernels on this GPU"
    name = (
        torch.cuda.get_device_name(target)
        if target.type == "cuda"
        else f"{target}, {torch.get_num_threads()} threads"
    )
    why = f"device {name}, precision {precision} ({why}), backend {backend} ({reason})"
    return Placement(target, precision, backend, why, choice)


def shape_of(config: Config) -> Shape:
    """The shape of a run's layers, with the prompts of a shard at the end of the curriculum."""
    model = config.model
    prompts = config.training.batch_size // config.training.shards
    tokens = config.task.tokens_of(config.task.points)
    hidden = model.n_hidden or 4 * model.n_embd
    return Shape(model.n_embd, model.n_head, hidden, prompts, tokens)


def capability(device: torch.device) -> str:
    """The compute capability of a GPU, as "9.0"; elsewhere kernels are interpreted."""
    if device.type != "cuda":
        return INTERPRETER
    return "{}.{}".format(*torch.cuda.get_device_capability(device))


def place_exactly(device: str) -> Placement:
    """The placement of an evaluation: fp32 without TF32, by PyTorch's own operations or, on a CPU,
    the backend `cpu`. Raises ConfigError for a device that this machine does not have."""
    placement = place(device, "fp32", "eager")
    return replace(placement, backend="cpu") if placement.device.type == "cpu" else placement


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Within this context PyTorch computes as it does by default, whatever a notebook has set:
    with gradients, in float32, on the CPU where no device is named, products as exact as asked
    for."""
    products = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))  # which turns gradients on, too
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":  # it would cost time at each call
            stack.enter_context(torch.device("cpu"))
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
        # After set_float32_matmul_precision("medium") oneDNN may round products to bfloat16.
        stack.callback(setattr, products, "fp32_precision", products.fp32_precision)
        products.fp32_precision = "ieee"
        yield


@cache
def say_if_threads_spin() -> None:
    """Print a line on stderr, once, where PyTorch's idle threads wait long: torch was loaded before
    looplab. None where its threads are not libgomp's, or there is only one."""
    maps = Path("/proc/self/maps")  # the files that this process has loaded, on Linux
    spins = SET_TOO_LATE and torch.get_num_threads() > 1 and maps.exists()
    if spins and b"libgomp" in maps.read_bytes():
        print(
            "torch was loaded before looplab, and its idle threads keep the processor busy: import "
            "looplab first, or set GOMP_SPINCOUNT=1000 before Python starts",
            file=sys.stderr,
        )


def _resolve(device: str) -> torch.device:
    if device.partition(":")[0] in ("cpu", "cuda"):
        with suppress(RuntimeError, AssertionError):
            # A tensor there is the proof that the device works, and gives "cuda" its index.
            return torch.empty(1, device=device).device
    raise ConfigError("device", f"cannot be {device!r} on this machine")


def _choose_backend(backend: str, device: torch.device, precision: str) -> tuple[str, str]:
    """The backend and the reason; ConfigError for one that cannot run here."""
    in_bf16 = device.type == "cpu" and precision in ("bf16", "mixed")
    if in_bf16 and backend in ("auto", "cpu") and not has_bf16_products():
        return "eager", "oneDNN has no bf16 products on this processor, where fp32 is faster"
    if backend == "auto":
        if device.type == "cpu":
            return "cpu", "PyTorch, with oneDNN's products; triton needs an NVIDIA GPU"
        if problem := what_triton_lacks(device):
            return "eager", f"triton {problem}"
        return "triton", "our own kernels for this GPU"
    problem = what_triton_lacks(device) if backend == "triton" else None
    if backend == "cpu" and device.type != "cpu":
        problem = "needs a CPU"
    if problem:
        raise ConfigError("backend", f"cannot be {backend} on {device}: it {problem}")
    return backend, "as asked"


def what_triton_lacks(device: torch.device) -> str | None:
    """Says what our kernels need and this machine lacks, as in "needs …"; None where it lacks
    nothing."""
    is_interpreted = device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if device.type != "cuda" and not is_interpreted:
        return "needs an NVIDIA GPU (TRITON_INTERPRET=1 runs it on a CPU, slowly, to check it)"
    if (spec := find_spec("triton")) is None or spec.origin is None:  # or a folder of that name
        return "needs the package triton, which is not installed"
    if is_interpreted:
        return None
    capability = torch.cuda.get_device_capability(device)
    if capability < _LEAST_CAPABILITY:
        return "needs compute capability 8.0, and this GPU has {}.{}".format(*capability)
    properties = torch.cuda.get_device_properties(device)
    # Where PyTorch does not tell, the kernels themselves would.
    shared = getattr(properties, "shared_memory_per_block_optin", _LEAST_SHARED)
    if shared < _LEAST_SHARED:
        return (
            f"needs {_LEAST_SHARED // 1024} KiB of shared memory, and this GPU has {shared // 1024}"
        )
    # Triton compiles the code that launches its kernels on the machine that runs them.
    if not any(map(shutil.which, (os.environ.get("CC", "gcc"), "clang"))):
        return "needs a C compiler (gcc, clang, or the one that CC names)"
    if not Path(sysconfig.get_path("include", "posix_prefix"), "Python.h").exists():
        return "needs Python's headers (the package python3-dev, or the like)"
    return None
