"""The kernels compiled for a GPU that need not be present: what each uses of a multiprocessor.

Every launch in one training step of a model is recorded and compiled by Triton for a compute
capability; nothing runs. Not for a process that interprets kernels.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels.common import Compute
from looplab.models.kernels.segment import run_shared
from looplab.models.loops.loop import SharedLoop
from looplab.models.segment import Span

# Of a program and of a multiprocessor, in bytes (CUDA guide, table 27).
SHARED_LIMIT = {80: 163 * 1024, 90: 227 * 1024}
_SHARED = {80: 164 * 1024, 90: 228 * 1024}
_WARPS, _REGISTERS, _RESERVED_SHARED = 64, 64 * 1024, 1024  # the last of each program
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
# As disassembled: a tensor core's product with its shape, a product without tensor cores.
_TENSOR, _FMA = re.compile(r"(?:HGMMA|HMMA|QGMMA)\.(\w+?)\."), re.compile(r"\bFFMA\b")


class Usage(NamedTuple):
    """One compiled kernel.

    registers of a thread, bytes of its stack and of shared memory; of the loops around its products
    the instructions (without products all of them), and those that access local memory; the tensor
    cores' instructions by shape; fma: products without tensor cores; executed: multiplications that
    the layout of its tiles makes over those that the tiles need (None without tensor cores);
    occupancy: the share of a multiprocessor's warps that fit at once.
    """

    name: str
    warps: int
    registers: int
    stack: int
    shared: int
    loop_instructions: int
    loop_local: int
    tensor_shapes: dict[str, int]
    fma: int
    executed: float | None
    occupancy: float


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
    return [_usage(kernel, capability) for kernel in kernels.values()]


def _usage(kernel: Any, capability: int) -> Usage:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        text, code = (_cuobjdump(word, file.name) for word in ("--dump-resource-usage", "-sass"))
    usage = {key: int(value) for key, value in re.findall(r"(REG|STACK):(\d+)", text)}
    instructions = [
        (int(at, 16), line) for at, line in re.findall(r"/\*([0-9a-f]{4,})\*/ +(.*?);", code)
    ]
    looped = _in_loops(instructions)
    has_products = "tt.dot " in kernel.asm["ttir"]
    warps, shared = kernel.metadata.num_warps, kernel.metadata.shared
    return Usage(
        f"{Path(kernel.src.fn.fn.__code__.co_filename).stem}.{kernel.src.name}",
        warps,
        usage["REG"],
        usage["STACK"],
        shared,
        len(looped),
        sum(bool(re.search(r"\b(LDL|STL)\b", line)) for line in looped) if has_products else 0,
        dict(Counter(_TENSOR.findall(code))),
        len(_FMA.findall(code)) if has_products else 0,
        executed_over_needed(kernel.asm["ttgir"]),
        _occupancy(warps, usage["REG"], shared, capability),
    )


def _cuobjdump(word: str, file: str) -> str:
    done = subprocess.run([_CUOBJDUMP, word, file], capture_output=True, text=True, check=True)
    return done.stdout


def _in_loops(instructions: list[tuple[int, str]]) -> list[str]:
    """The instructions of the loops around products; all where the compiler unrolled them."""
    found: dict[int, str] = {}
    for end, line in instructions:
        jump = re.search(r"\bBRA\b.*0x([0-9a-f]+)", line)
        if jump and int(jump[1], 16) < end:
            body = {at: text for at, text in instructions if int(jump[1], 16) <= at <= end}
            if any(_TENSOR.search(text) or _FMA.search(text) for text in body.values()):
                found |= body
    return list((found or dict(instructions)).values())


def executed_over_needed(ttgir: str) -> float | None:
    """The multiplications of a kernel's products on tensor cores, by the layouts in Triton's GPU
    code, over those of their shapes. More than 1 where the warps of a program cover more rows or
    columns than a tile has: then several compute the same. None without such products."""
    layouts = {
        name: [int(a) * int(b) for a, b in zip(warps.split(","), shape.split(","), strict=False)]
        for name, warps, shape in re.findall(
            r"(#mma\d*) = #ttg\.nvidia_mma<\{.*?warpsPerCTA = \[(.*?)\], instrShape = \[(.*?)\]",
            ttgir,
        )
    }
    executed = needed = 0
    for inner, rows, columns, layout in re.findall(
        r"(?:warp_group_dot|tt\.dot) .* : \S+<\d+x(\d+)x.* -> tensor<(\d+)x(\d+)xf32, (#mma\d*)>",
        ttgir,
    ):
        size = int(rows), int(columns)
        covered = [max(a, b) for a, b in zip(size, layouts[layout], strict=True)]
        executed += int(inner) * math.prod(covered)
        needed += int(inner) * math.prod(size)
    return executed / needed if needed else None


def _occupancy(warps: int, registers: int, shared: int, capability: int) -> float:
    """Registers are given to warps by 256."""
    of_warp = -(-registers * 32 // 256) * 256
    programs = min(
        _WARPS // warps,
        _REGISTERS // (of_warp * warps),
        _SHARED[capability] // (shared + _RESERVED_SHARED),
    )
    return programs * warps / _WARPS
