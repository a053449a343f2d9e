"""The time of our training step: on a GPU by kernel, on a CPU by operation.

    python -m benchmarks.profile_step config=sparse variant=triton:bf16:graph

The wall time of the step is measured first, without the profiler. FLOPs and bytes are those of
benchmarks/cost.py (the bytes under its fusion, whatever the backend fuses); the rates are that work
over the measured time.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys
from itertools import count
from typing import NamedTuple

from torch.profiler import ProfilerActivity, profile

from reloop.benchmarks.common import run_benchmark, write_report
from reloop.benchmarks.cost import work_of
from reloop.benchmarks.settings import ProfileSettings, at_full_size, named_config
from reloop.benchmarks.timing import Step, Totals, cuda_kernels, measure, warm_up
from reloop.benchmarks.variants import make_trainer, parse_variants, updates
from reloop.conf.mistakes import RunError
from reloop.training.device import place


class Row(NamedTuple):
    """A kernel or an operation: calls and milliseconds of a step."""

    name: str
    calls: float
    ms: float


def main(words: list[str]) -> int:
    """Run the command; returns the exit code, 1 if the profiler sees nothing."""
    return run_benchmark("profile_step", ProfileSettings, words, __doc__, _run)


def _run(settings: ProfileSettings) -> None:
    """Profile, print a table, write; RunError if the profiler sees nothing."""
    device = place(settings.device, "auto", "auto").device
    default = "cpu:fp32" if device.type == "cpu" else "eager:fp32"
    (variant,) = parse_variants([settings.variant or default], device)
    config = at_full_size(named_config(settings.config))
    variant.prepare()
    update, numbers = updates(make_trainer(config, device, variant), variant), count()

    def step() -> None:
        update(next(numbers))

    wall = measure(step, warm_up(step, settings.warmup, device), device).wall
    measure_operations = cuda_kernels if device.type == "cuda" else cpu_operations
    rows = [
        Row(name, calls / settings.steps, microseconds / 1e3 / settings.steps)
        for name, (calls, microseconds) in measure_operations(step, settings.steps).items()
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
    print(
        f"{settings.config}, {variant.name}: {1e3 * wall:.4g} ms a step, {busy:.4g} ms of it busy"
    )
    print(
        "computed work over measured time: "
        f"{rates['teraflop_per_second']:.3g} TFLOP/s over the step; over what is busy "
        f"{rates['teraflop_per_second_busy']:.3g} and {rates['gigabyte_per_second_busy']:.3g} GB/s"
    )
    print(f"{'ms a step':>10}{'share':>8}{'calls':>8}{'us each':>9}  name")
    for name, calls, ms in rows[: settings.top]:
        print(f"{ms:10.4f}{ms / busy:8.1%}{calls:8.1f}{1e3 * ms / calls:9.2f}  {name[:70]}")
    content = {**variant.facts(), "rates": rates, "rows": [row._asdict() for row in rows]}
    write_report(settings.json, device, {"setting": settings.config, **content})


def cpu_operations(step: Step, steps: int) -> Totals:
    """Each operation's calls and microseconds (without children) in `steps` steps."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    return {row.key: (row.count, row.self_cpu_time_total) for row in profiler.key_averages()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
