"""How long the variants of the kernels' operations take here, at one shape.

times = variant_times(Shape(256, 8, 1024, prompts=64, tokens=81), device, compute_of("bf16"))
times["mlp_forward"]                                           # {"fused": 0.03, "cublas": 0.02}
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from timeit import timeit

import torch
from triton.testing import do_bench

from looplab.conf.mistakes import one_line
from looplab.models.blocks.gpt2 import Block
from looplab.models.kernels.choice import Shape
from looplab.models.kernels.common import Compute
from looplab.models.kernels.gather import Uses
from looplab.models.kernels.mlp import MlpOperation
from looplab.models.kernels.projection import ProjectionOperation
from looplab.models.kernels.qkv import QkvOperation
from looplab.models.kernels.variants import VARIANTS, Variants
from looplab.training.graph import CudaRecorder
from looplab.training.jobs import end_with_parent

Times = dict[str, dict[str, float]]  # milliseconds by field of Variants and variant


def milliseconds(call: Callable[[], object], device: torch.device) -> float:
    """The time of a call: on a GPU the median over replays of its captured graph, each with an L2
    cache that holds nothing of it; elsewhere that of one call."""
    if device.type != "cuda":
        return 1e3 * timeit(call, number=1)
    recorder = CudaRecorder(device)
    recorder.warm_up(call)  # what is allocated and compiled at first use must exist
    # It overwrites a buffer larger than the cache before each replay.
    return float(do_bench(recorder.capture(call, ()), return_mode="median"))


def compute_of(precision: str) -> Compute:
    """The kernels' arithmetic in bf16, tf32 or fp32."""
    return Compute(torch.bfloat16 if precision == "bf16" else torch.float32, precision == "tf32")


def variant_times(shape: Shape, device: torch.device, compute: Compute) -> Times:
    """The times of every variant of every operation, which are printed; one that fails has none. A
    fault takes its process's GPU along: another process goes on."""
    times: Times = {field: {} for field in VARIANTS}
    process = _process()
    for field, allowed in VARIANTS.items():
        for name in allowed:
            try:
                timing = process.submit(_time, shape, device, compute, field, name)
                times[field][name] = timing.result()
                print(f"{field} by {name}: {times[field][name]:.3g} ms", flush=True)
            except Exception as error:  # of any kind: the others can still be timed
                print(f"{field} by {name}: failed, {one_line(error)}", flush=True)
                process.shutdown(wait=False)
                process = _process()
    process.shutdown()
    return times


def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), end_with_parent)


def _time(shape: Shape, device: torch.device, compute: Compute, field: str, name: str) -> float:
    """The milliseconds of one use of an operation by this variant. Backwards the weights' gradients
    are a part of it."""
    torch.backends.cuda.matmul.allow_tf32 = compute.tf32
    compute = replace(compute, variants=Variants(**{field: name}))
    with torch.no_grad(), device:
        block = Block(shape.n_embd, shape.n_head)
        x = torch.randn(shape.prompts, shape.tokens, shape.n_embd)
        uses = Uses(1, 1)
        qkv = QkvOperation(block, compute, uses)
        mlp = MlpOperation(block, compute, uses, 1.0)
        projection = ProjectionOperation(block, compute, uses, 1.0)
        mixed = projection.slot_for_mixed(0, x).normal_()
        calls: dict[str, Callable[[], object]] = {
            "qkv_forward": lambda: qkv.forward(x, False, False),
            "projection_forward": lambda: projection.forward(x, mixed),
            "mlp_forward": lambda: mlp.forward(x),
        }
        calls["projection_backward"] = lambda: projection.backward(0, x)
        calls["mlp_backward"] = lambda: mlp.backward(0, x, x)
        return milliseconds(calls[field], device)
