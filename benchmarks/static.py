"""The kernels compiled for a GPU that need not be present: what each uses of a multiprocessor.

Every launch in one training step of a model is recorded and compiled by Triton for a compute
capability; nothing runs. Not for a process that interprets kernels.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from reloop.models.blocks.spec import BlockSpec
from reloop.models.kernels.common import Compute
from reloop.models.kernels.segment import run_shared
from reloop.models.loops.loop import SharedLoop
from reloop.models.segment import Span

SHARED_LIMIT = {80: 163 * 1024, 90: 227 * 1024}  # bytes a program may have (CUDA guide, table 27)
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


class Usage(NamedTuple):
    """One compiled kernel: registers of a thread, bytes of its stack (0: nothing spilled), bytes of
    shared memory, and the count of each tensor-core instruction in its PTX."""

    name: str
    warps: int
    registers: int
    stack: int
    shared: int
    instructions: dict[str, int]
    products: int


class _NoGpu:
    """The methods of a driver that Triton calls to compile."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability  # so that compiled kernels are cached by target

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def recorded_launches(capability: int) -> Iterator[dict[str, Any]]:
    """Inside, launches of Triton kernels only compile for `capability`; yields the compiled kernels
    by hash."""
    kernels: dict[str, Any] = {}
    launch = JITFunction.run

    def record(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        kernel = launch(self, *args, grid=grid, warmup=True, **kwargs)
        kernels[kernel.hash] = kernel

    driver.set_active(_NoGpu(capability))
    JITFunction.run = record
    try:
        yield kernels
    finally:
        JITFunction.run = launch


def step_kernels(
    capability: int,
    compute: Compute,
    n_embd: int,
    n_head: int,
    tokens: int,
    batch: int = 64,
    *,
    n_layer: int = 1,
    injection: str = "add",
) -> list[Usage]:
    """All kernels of a looped model's segment without gradients, and of one with forward and
    backward pass."""
    with torch.device("meta"):
        loop = SharedLoop(BlockSpec(n_embd, n_head, n_layer, length=tokens), injection)
        e = torch.zeros(batch, tokens, n_embd, requires_grad=True)
    with recorded_launches(capability) as kernels:
        with torch.no_grad():
            run_shared(loop, e, e, compute, Span(0, 2), 1.0)
        _, streams = run_shared(loop, e, e, compute, Span(0, 2, keep=2), 1.0)
        streams.sum().backward()
    return [_usage(kernel) for kernel in kernels.values()]


def _usage(kernel: Any) -> Usage:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        text = subprocess.run(
            [_CUOBJDUMP, "--dump-resource-usage", file.name],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    usage = {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED):(\d+)", text)}
    ptx = kernel.asm["ptx"]
    instructions = {
        name: len(re.findall(pattern, ptx))
        for name, pattern in (
            ("wgmma", r"wgmma\.mma_async"),
            ("mma", r"(?<!wg)mma\.sync"),
            ("fma", r"fma\.rn\.f32"),
        )
    }
    name = f"{Path(kernel.src.fn.fn.__code__.co_filename).stem}.{kernel.src.name}"
    return Usage(
        name, kernel.metadata.num_warps, usage["REG"], usage["STACK"],
        kernel.metadata.shared, instructions, len(re.findall(r"tt\.dot ", kernel.asm["ttir"])),
    )  # fmt: skip
