"""The speed of the Triton kernels over eager on an NVIDIA GPU, captured, over shapes.

python -m benchmarks.kernels precision=bf16,tf32
"""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from looplab.benchmarks.common import run_benchmark, write_report
from looplab.benchmarks.settings import KernelSettings
from looplab.conf.mistakes import ConfigError
from looplab.experiments.kernel_times import compute_of, milliseconds
from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels.segment import run_shared
from looplab.models.loops.loop import LoopState, SharedLoop
from looplab.models.segment import Span, run_segment
from looplab.show.tables import Table, document

_COMPUTES = {name: compute_of(name) for name in ("bf16", "tf32", "ieee")}
_SHAPES = (  # prompts, points, n_embd, n_head
    (64, 11, 32, 4),
    (64, 11, 64, 4),
    (64, 41, 128, 8),
    (16, 41, 256, 8),
    (64, 41, 256, 8),
    (192, 41, 256, 8),
    (64, 101, 256, 8),
    (64, 41, 512, 8),
)
_LOOPS = 8  # of the timed segment
Row = dict[str, object]  # the times of two ways to make a loop


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("kernels", KernelSettings, words, __doc__, _run)


def _run(settings: KernelSettings) -> None:
    """Write the rows as they come, and print a table; ConfigError without a GPU."""
    if not torch.cuda.is_available():
        raise ConfigError("precision", "cannot be timed here: there is no NVIDIA GPU")
    rows: list[Row] = []
    for row in _break_even(settings.precision):
        rows.append(row)
        write_report(settings.json, torch.device("cuda"), {"kernels": rows})
    lines = []
    for row in rows:
        values = row.values()
        lines.append(
            [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
        )
    print(document([Table(list(rows[0]), lines)]))


def _break_even(precisions: Sequence[str]) -> Iterator[Row]:
    """The microseconds of a loop without gradients and of one with them, by eager and by the
    kernels."""
    for prompts, points, n_embd, n_head in _SHAPES:
        tokens = 2 * points - 1
        with torch.device("cuda"):
            loop = SharedLoop(BlockSpec(n_embd, n_head, length=tokens), "add")
            # With a gradient, as the read-in's output has one in training.
            e = torch.randn(prompts, tokens, n_embd, requires_grad=True)
        for name in precisions:
            for grad in (False, True):
                row: Row = {"shape": [prompts, points, n_embd, n_head], "precision": name}
                row["what"] = "training" if grad else "prefix"
                microseconds = {}
                for way in ("eager", "triton"):
                    segment = partial(_segment, way, loop, e, name, grad)
                    # Of one loop: the segment has _LOOPS of them.
                    microseconds[way] = 1e3 * milliseconds(segment, e.device) / _LOOPS
                    row[f"{way}_us"] = microseconds[way]
                row["ratio"] = microseconds["eager"] / microseconds["triton"]
                yield row


def _segment(way: str, loop: SharedLoop, e: torch.Tensor, precision: str, grad: bool) -> None:
    """A segment of loops by eager or by the kernels, from zero; with `grad` its backward pass,
    too."""
    compute = _COMPUTES[precision]
    stream = torch.zeros_like(e)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
