"""The speed of the Triton kernels over eager, and their use of a GPU's resources.

    python -m benchmarks.kernels                     on a GPU: against eager over shapes, as ratios
    python -m benchmarks.kernels static=true         anywhere: registers, spills, shared memory

static=true compiles every kernel of a training step for each capability; nothing runs.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from looplab.benchmarks.common import run_benchmark, write_report
from looplab.benchmarks.settings import KernelSettings
from looplab.benchmarks.static import SHARED_LIMIT, step_kernels
from looplab.conf.mistakes import ConfigError, check_choice
from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels.common import INTERPRETED, Compute
from looplab.models.kernels.segment import run_shared
from looplab.models.loops.loop import LoopState, SharedLoop
from looplab.models.segment import Span, run_segment

_COMPUTES = {
    "bf16": Compute(torch.bfloat16),
    "tf32": Compute(torch.float32, tf32=True),
    "ieee": Compute(torch.float32),
}
_CAPABILITIES = {f"{number / 10}": number for number in SHARED_LIMIT}
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
    """Print a table and write it; ConfigError for what this machine cannot measure."""
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
        rows.append(row)  # written each time, so that one that is stopped keeps them
        write_report(settings.json, device, {"kernels": rows})


def _static(settings: KernelSettings) -> Iterator[Row]:
    """The resources of each kernel, one line each."""
    for capability in map(str, settings.capability):
        check_choice("capability", capability, _CAPABILITIES)
    shape = (settings.width, settings.heads, 2 * settings.points - 1)
    print(f"64 prompts of {settings.points} points, {settings.width} wide, {settings.heads} heads")
    print(
        f"{'kernel':27}{'for':>4}{'':>5}{'warps':>6}{'regs':>5}{'stack':>6}{'shared':>8}"
        f"{'loop':>6}{'local':>6}{'executed':>9}{'occupied':>9}  products"
    )
    for capability in map(str, settings.capability):
        for name in settings.precision:
            for usage in step_kernels(_CAPABILITIES[capability], _COMPUTES[name], *shape):
                counts = usage.tensor_shapes | ({"fma": usage.fma} if usage.fma else {})
                executed = "" if usage.executed is None else f"{usage.executed:.2f}"
                print(
                    f"{usage.name:27}{capability:>4}{name:>5}{usage.warps:6}{usage.registers:5}"
                    f"{usage.stack:6}{usage.shared / 1024:6.0f} K{usage.loop_instructions:6}"
                    f"{usage.loop_local:6}{executed:>9}{usage.occupancy:9.0%}  "
                    + " ".join(f"{shape} x{number}" for shape, number in counts.items()),
                    flush=True,
                )
                yield {"capability": capability, "precision": name, **usage._asdict()}


def _break_even(precisions: Sequence[str]) -> Iterator[Row]:
    """Eager's time over the kernels', for a loop without gradients and for one with gradients."""
    print(f"{torch.cuda.get_device_name()}; microseconds a loop, and eager's over the kernels'")
    print(f"{'prompts, points, width':24}{'':>6}{'':>10}{'eager':>10}{'triton':>10}{'ratio':>8}")
    for prompts, points, n_embd, n_head in _SHAPES:
        for name in precisions:
            for grad in (False, True):
                case = _Case(prompts, points, n_embd, n_head, _COMPUTES[name])
                eager, fast = (
                    1e3 * _milliseconds(partial(run, grad)) / _LOOPS
                    for run in (case.eager, case.triton)
                )
                kind = "training" if grad else "prefix"
                shape = f"{prompts}, {points}, {n_embd}"
                print(
                    f"{shape:24}{name:>6}{kind:>10}{eager:10.1f}{fast:10.1f}{eager / fast:8.2f}",
                    flush=True,
                )
                row = {"shape": [prompts, points, n_embd, n_head], "precision": name, "what": kind}
                yield {**row, "eager_us": eager, "triton_us": fast}


def _span(grad: bool) -> Span:
    return Span(0, _LOOPS, keep=_LOOPS if grad else 0, grad=grad)


class _Case:
    """A looped block and a read-in of one shape on the GPU."""

    def __init__(self, prompts: int, points: int, n_embd: int, n_head: int, compute: Compute):
        self.compute = compute
        torch.manual_seed(0)
        with torch.device("cuda"):
            self.loop = SharedLoop(BlockSpec(n_embd, n_head, length=2 * points - 1), "add")
            torch.nn.init.normal_(self.loop.get_parameter("positions"), std=0.02)
            self.e = torch.randn(prompts, 2 * points - 1, n_embd, requires_grad=True)

    def eager(self, grad: bool) -> None:
        torch.backends.cuda.matmul.allow_tf32 = self.compute.tf32
        state = LoopState(torch.zeros_like(self.e), torch.zeros_like(self.e))
        is_bf16 = self.compute.dtype is torch.bfloat16
        with torch.autocast("cuda", torch.bfloat16, enabled=is_bf16):
            self._back(grad, run_segment(self.loop, state, self.e, _span(grad))[1])

    def triton(self, grad: bool) -> None:
        with torch.set_grad_enabled(grad):
            stream = torch.zeros_like(self.e)
            _, streams = run_shared(self.loop, stream, self.e, self.compute, _span(grad), 1.0)
        self._back(grad, streams)

    def _back(self, grad: bool, streams: Tensor) -> None:
        if grad:
            self.loop.zero_grad(set_to_none=True)
            self.e.grad = None
            streams.sum().backward()


def _milliseconds(function: Callable[[], None], repeats: int = 20) -> float:
    """Median over repeats, each timed with CUDA events."""
    for _ in range(3):
        function()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
