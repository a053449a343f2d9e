"""How long the variants of the kernels' operations take here, at one shape.

times = variant_times(Sizes(n_embd=256, n_head=8, prompts=64, tokens=81), "cuda:0", "bf16")
times["mlp_forward"]              # milliseconds: {"fused": 0.03, "split": 0.02, "cublas": None}
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple, cast

import torch
from torch import nn

from looplab.conf.mistakes import one_line
from looplab.models.blocks.gpt2 import Block
from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels.common import Compute
from looplab.models.kernels.gather import Uses
from looplab.models.kernels.mlp import MlpOperation
from looplab.models.kernels.projection import ProjectionOperation
from looplab.models.kernels.qkv import QkvOperation
from looplab.models.kernels.variants import VARIANTS, Variants
from looplab.models.loops.loop import SharedLoop
from looplab.training.graph import CudaRecorder
from looplab.training.jobs import describe_exit, end_with_parent

_WARM_UPS = 3
_REPLAYS = 100
_LIMIT = 120  # seconds that a variant may take, with a process's start and what is compiled
_SPAWN = multiprocessing.get_context("spawn")
Wanted = Sequence[tuple[str, str]]  # fields of Variants, each with a variant


class Sizes(NamedTuple):
    """The sizes of a layer, and of the prompts that it gets at once."""

    n_embd: int
    n_head: int
    prompts: int
    tokens: int


def milliseconds(call: Callable[[], object], device: torch.device) -> float:
    """The time of a call: on a GPU the median over replays of its captured graph, each with an L2
    cache that holds nothing of it; elsewhere that of one call."""
    if device.type != "cuda":
        start = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - start)
    recorder = CudaRecorder(device)
    for _ in range(_WARM_UPS):
        recorder.warm_up(call)
    replay = recorder.capture(call, ())
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    others = torch.empty(2 * cache, dtype=torch.uint8, device=device)
    begins = [torch.cuda.Event(enable_timing=True) for _ in range(_REPLAYS)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(_REPLAYS)]
    for begin, end in zip(begins, ends, strict=True):
        others.zero_()
        begin.record()
        replay()
        end.record()
    torch.cuda.synchronize(device)
    return statistics.median(map(torch.cuda.Event.elapsed_time, begins, ends))


def compute_of(precision: str) -> Compute:
    """The kernels' arithmetic in bf16, tf32 or fp32."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    return Compute(dtype, tf32=precision == "tf32")


def variant_times(sizes: Sizes, device: str, precision: str) -> dict[str, dict[str, float | None]]:
    """Milliseconds of every variant of every operation; None, and a printed line, for one that
    failed. Each process times as many as it can: a fault takes its GPU along, and the next one goes
    on after it."""
    wanted = [(field, name) for field, allowed in VARIANTS.items() for name in allowed]
    times: dict[str, dict[str, float | None]] = {field: {} for field in VARIANTS}
    while wanted:
        for answer in _answers(sizes, device, precision, wanted):
            field, name = wanted.pop(0)
            times[field][name] = answer if isinstance(answer, float) else None
            if isinstance(answer, str):
                print(f"{field} by {name} failed: {answer}", flush=True)
    return times


def _answers(sizes: Sizes, device: str, precision: str, wanted: Wanted) -> Iterator[float | str]:
    """The milliseconds of these variants in a process of its own, until one fails: the last answer
    is then the reason."""
    receiver, sender = _SPAWN.Pipe(duplex=False)
    arguments = (sizes, device, precision, tuple(wanted), sender)
    process = _SPAWN.Process(target=_time_each, args=arguments)
    process.start()
    sender.close()  # so that the end of the process is the end of the pipe
    try:
        for _ in tuple(wanted):
            answer = f"it took more than {_LIMIT} s"
            try:
                if receiver.poll(_LIMIT):
                    answer = receiver.recv()
            except EOFError:
                process.join()
                answer = f"its process {describe_exit(process.exitcode or 0)}"
            yield answer
            if isinstance(answer, str):
                return
    finally:
        process.kill()
        process.join()


def _time_each(
    sizes: Sizes, device: str, precision: str, wanted: Wanted, sender: Connection
) -> None:
    """Send the milliseconds of each variant, or why one has none, which is the last."""
    end_with_parent()
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        with torch.no_grad(), torch.device(device):
            for field, name in wanted:
                variants = replace(Variants(), **{field: name})
                compute = replace(compute_of(precision), variants=variants)
                sender.send(milliseconds(_call(field, compute, sizes), torch.device(device)))
    except Exception as error:
        sender.send(one_line(error))


def _call(field: str, compute: Compute, sizes: Sizes) -> Callable[[], object]:
    """One use of an operation in a loop that adds the prompt, on the current default device.
    Backwards the weights' gradients are a part of it."""
    loop = SharedLoop(BlockSpec(sizes.n_embd, sizes.n_head, length=sizes.tokens), "add")
    block = cast(Block, loop.blocks[0])
    x, other = torch.randn(2, sizes.prompts, sizes.tokens, sizes.n_embd)
    uses = Uses(1, 1)
    if field == "qkv_forward":
        norm = cast(nn.LayerNorm, loop.norm)
        qkv = QkvOperation(block, compute, uses, injection="add", e=other, norm_f=norm)
        return partial(qkv.forward, x, True, False)
    mlp = MlpOperation(block, compute, uses, 1.0)
    if field == "mlp_forward":
        return partial(mlp.forward, x)
    if field == "mlp_backward":
        return partial(mlp.backward, 0, x, other)
    projection = ProjectionOperation(block, compute, uses, 1.0)
    mixed = projection.slot_for_mixed(0, x).normal_()
    if field == "projection_forward":
        return partial(projection.forward, x, mixed)
    return partial(projection.backward, 0, other)
