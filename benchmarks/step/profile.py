"""The time of a step of ours: on a GPU by kernel, on a CPU by operation.

The wall time of the step is measured first, without the profiler. FLOPs and bytes are those of
benchmarks/cost.py (the bytes under its fusion, whatever the backend fuses); the rates are that work
over the measured time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from reloop.conf.mistakes import RunError
from reloop.conf.schema import Config

from ..cost import work_of
from ..timing import Step, Totals, cuda_kernels, measure, warm_up
from ..variants import Variant

_STEPS, _WARMUP = 10, 5
_ROWS = 25  # of the table that is printed


class Row(NamedTuple):
    """A kernel or an operation: calls and milliseconds of a step."""

    name: str
    calls: float
    ms: float


def profile_variant(config: Config, variant: Variant, device: torch.device) -> dict[str, object]:
    """Print and return where a variant's step spends its time; RunError if the profiler sees
    nothing."""
    step = variant.build(config, device)
    wall = measure(step, warm_up(step, _WARMUP, device), device).wall
    operations = cuda_kernels if device.type == "cuda" else cpu_operations
    rows = [
        Row(name, calls / _STEPS, microseconds / 1e3 / _STEPS)
        for name, (calls, microseconds) in operations(step, _STEPS).items()
    ]
    rows.sort(key=lambda row: -row.ms)
    busy = sum(row.ms for row in rows)
    if not busy:
        raise RunError("the profiler sees nothing on this machine")
    work = work_of(config)
    rates = {
        "wall_ms": 1e3 * wall,
        "busy_ms": busy,
        "teraflop_per_second": work.flops / wall / 1e12,
        "teraflop_per_second_busy": work.flops / busy / 1e9,
        "gigabyte_per_second_busy": work.traffic() / busy / 1e6,
    }
    print(f"\n{variant.name}: {1e3 * wall:.4g} ms a step, {busy:.4g} ms of it busy")
    print(
        "computed work over measured time: "
        f"{rates['teraflop_per_second']:.3g} TFLOP/s over the step; over what is busy "
        f"{rates['teraflop_per_second_busy']:.3g} and {rates['gigabyte_per_second_busy']:.3g} GB/s"
    )
    print(f"{'ms a step':>10}{'share':>8}{'calls':>8}{'us each':>9}  name")
    for name, calls, ms in rows[:_ROWS]:
        print(f"{ms:10.4f}{ms / busy:8.1%}{calls:8.1f}{1e3 * ms / calls:9.2f}  {name[:70]}")
    return {"rates": rates, "rows": [row._asdict() for row in rows]}


def cpu_operations(step: Step, steps: int) -> Totals:
    """Each operation's calls and microseconds (without children) in `steps` steps."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    return {row.key: (row.count, row.self_cpu_time_total) for row in profiler.key_averages()}
