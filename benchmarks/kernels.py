"""The speed of the Triton kernels over eager, and their use of a GPU's resources.

    python -m benchmarks.kernels                     on a GPU: against eager over shapes, as ratios
    python -m benchmarks.kernels static=true         anywhere: registers, spills, shared memory

static=true records every launch in a training step and has Triton compile it for each compute
capability; nothing runs, so that no GPU need be there. Not for a process that interprets kernels.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import math
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from triton.testing import do_bench

from looplab.benchmarks.common import run_benchmark, write_report
from looplab.benchmarks.settings import KernelSettings
from looplab.conf.mistakes import ConfigError
from looplab.evaluation.tables import Table, document
from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels.common import INTERPRETED, Compute
from looplab.models.kernels.segment import run_shared
from looplab.models.loops.loop import LoopState, SharedLoop
from looplab.models.segment import Span, run_segment

_WIDTH, _HEADS, _PROMPTS = 256, 8, 64
# By compute capability, of a program and of a multiprocessor, in bytes (CUDA guide, table 27).
SHARED_LIMIT = {80: 163 * 1024, 90: 227 * 1024}
_SHARED = {80: 164 * 1024, 90: 228 * 1024}
_WARPS, _REGISTERS, _RESERVED_SHARED = 64, 64 * 1024, 1024  # the last of each program
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
# As disassembled: a tensor core's product with its shape, a product without tensor cores.
_TENSOR, _FMA = re.compile(r"(?:HGMMA|HMMA|QGMMA)\.(\w+?)\."), re.compile(r"\bFFMA\b")
_COMPUTES = {
    "bf16": Compute(torch.bfloat16),
    "tf32": Compute(torch.float32, tf32=True),
    "ieee": Compute(torch.float32),
}
_SHAPES = (  # prompts, points, n_embd, n_head
    (64, 11, 32, 4), (64, 11, 64, 4), (64, 41, 128, 8), (16, 41, 256, 8), (64, 41, 256, 8),
    (192, 41, 256, 8), (64, 101, 256, 8), (64, 41, 512, 8),
)  # fmt: skip
_LOOPS = 8  # of the timed segment
Row = dict[str, object]  # what is known of a kernel, or of two ways to make a loop


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("kernels", KernelSettings, words, __doc__, _run)


def _run(settings: KernelSettings) -> None:
    """Write the rows as they come, and print a table; ConfigError for what this machine cannot
    measure."""
    if INTERPRETED.value:
        raise ConfigError(
            "TRITON_INTERPRET", "must be unset: interpreted kernels are neither compiled nor fast"
        )
    if not (settings.static or torch.cuda.is_available()):
        raise ConfigError(
            "static", "must be true here: kernels are timed on an NVIDIA GPU, and there is none"
        )
    device = torch.device("cpu" if settings.static else "cuda")
    rows: list[Row] = []
    for row in _static(settings) if settings.static else _break_even(settings.precision):
        rows.append(row)
        write_report(settings.json, device, {"kernels": rows})
    lines = [[_cell(value) for value in row.values()] for row in rows]
    print(document([Table([*rows[0]], lines)]))


def _cell(value: object) -> str:
    if isinstance(value, dict):  # of instructions, their number by shape
        return " ".join(f"{key} x{number}" for key, number in value.items()) or "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _static(settings: KernelSettings) -> Iterator[Row]:
    """The resources of each kernel at the paper's width, in prompts of 41 points."""
    for capability in SHARED_LIMIT:
        for name in settings.precision:
            for usage in step_kernels(capability, _COMPUTES[name], 81):
                yield {"capability": f"{capability / 10}", "precision": name, **usage._asdict()}


def _break_even(precisions: Sequence[str]) -> Iterator[Row]:
    """The microseconds of a loop without gradients and of one with them, by eager and by the
    kernels."""
    for prompts, points, n_embd, n_head in _SHAPES:
        tokens = 2 * points - 1
        with torch.device("cuda"):
            loop = SharedLoop(BlockSpec(n_embd, n_head, length=tokens), "add")
            e = torch.randn(prompts, tokens, n_embd, requires_grad=True)
        for name in precisions:
            for grad in (False, True):
                eager, triton = (
                    1e3
                    * do_bench(partial(_segment, way, loop, e, name, grad), return_mode="median")
                    / _LOOPS
                    for way in ("eager", "triton")
                )
                row = {"shape": [prompts, points, n_embd, n_head], "precision": name}
                row["what"] = "training" if grad else "prefix"
                yield {**row, "eager_us": eager, "triton_us": triton, "ratio": eager / triton}


def _segment(way: str, loop: SharedLoop, e: torch.Tensor, precision: str, grad: bool) -> None:
    """A segment of loops by eager or by the kernels, from zero; with `grad` its backward pass,
    too."""
    compute, stream = _COMPUTES[precision], torch.zeros_like(e)
    span = Span(0, _LOOPS, keep=_LOOPS if grad else 0, grad=grad)
    if way == "triton":
        with torch.set_grad_enabled(grad):
            _, streams = run_shared(loop, stream, e, compute, span, 1.0)
    else:
        torch.backends.cuda.matmul.allow_tf32 = compute.tf32
        with torch.autocast("cuda", torch.bfloat16, enabled=compute.dtype is torch.bfloat16):
            streams = run_segment(loop, LoopState(stream, torch.zeros_like(e)), e, span)[1]
    if grad:
        loop.zero_grad(set_to_none=True)
        e.grad = None
        streams.sum().backward()


class Usage(NamedTuple):
    """One compiled kernel.

    registers of a thread, bytes of its stack and of shared memory; of the loops around its products
    the instructions (without products all of them), and those that access local memory; the tensor
    cores' instructions by shape; executed: multiplications that the layout of its tiles makes over
    those that the tiles need (None without tensor cores); occupancy: the share of a
    multiprocessor's warps that fit at once.
    """

    name: str
    warps: int
    registers: int
    stack: int
    shared: int
    loop_instructions: int
    loop_local: int
    tensor_shapes: dict[str, int]
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
def _recorded_launches(capability: int) -> Iterator[dict[str, Any]]:
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
    capability: int, compute: Compute, tokens: int, n_layer: int = 1, injection: str = "add"
) -> list[Usage]:
    """All kernels of a looped model's segment without gradients, and of one with forward and
    backward pass, at the paper's width and batch."""
    with torch.device("meta"):
        loop = SharedLoop(BlockSpec(_WIDTH, _HEADS, n_layer, length=tokens), injection)
        e = torch.zeros(_PROMPTS, tokens, _WIDTH, requires_grad=True)
    with _recorded_launches(capability) as kernels:
        with torch.no_grad():
            run_shared(loop, e, e, compute, Span(0, 2), 1.0)
        _, streams = run_shared(loop, e, e, compute, Span(0, 2, keep=2), 1.0)
        streams.sum().backward()
    return [_usage(kernel, capability) for kernel in kernels.values()]


def _usage(kernel: Any, capability: int) -> Usage:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        commands = ([_CUOBJDUMP, word, file.name] for word in ("--dump-resource-usage", "-sass"))
        text, code = (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for command in commands
        )
    usage = {key: int(value) for key, value in re.findall(r"(REG|STACK):(\d+)", text)}
    looped = _in_loops(
        {int(at, 16): line for at, line in re.findall(r"/\*([0-9a-f]{4,})\*/ +(.*?);", code)}
    )
    has_products = "tt.dot " in kernel.asm["ttir"]
    warps, shared = kernel.metadata.num_warps, kernel.metadata.shared
    registers = -(-usage["REG"] * 32 // 256) * 256  # of a warp, which gets them by 256
    programs = min(
        _WARPS // warps,
        _REGISTERS // (registers * warps),
        _SHARED[capability] // (shared + _RESERVED_SHARED),
    )
    return Usage(
        kernel.src.name,
        warps,
        usage["REG"],
        usage["STACK"],
        shared,
        len(looped),
        sum(bool(re.search(r"\b(LDL|STL)\b", line)) for line in looped) if has_products else 0,
        dict(Counter(_TENSOR.findall(code))),
        executed_over_needed(kernel.asm["ttgir"]),
        programs * warps / _WARPS,
    )


def _in_loops(instructions: dict[int, str]) -> list[str]:
    """The instructions, by address, of the loops around products; all where the compiler unrolled
    them."""
    found: dict[int, str] = {}
    for end, line in instructions.items():
        jump = re.search(r"\bBRA\b.*0x([0-9a-f]+)", line)
        if jump and int(jump[1], 16) < end:
            body = {at: text for at, text in instructions.items() if int(jump[1], 16) <= at <= end}
            if any(_TENSOR.search(text) or _FMA.search(text) for text in body.values()):
                found |= body
    return list((found or instructions).values())


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
