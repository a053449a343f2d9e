"""The time of our training step: on a GPU by kernel, on a CPU by operation.

    python -m benchmarks.profile_step --setting sparse --variant triton:bf16:graph

The wall time of the step is measured first, without the profiler. FLOPs and bytes are those of
benchmarks/cost.py (the bytes under its fusion, whatever the backend fuses); the rates are that work
over the measured time.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import argparse
import sys
from itertools import count
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from reloop.benchmarks.arguments import Parser, at_least
from reloop.benchmarks.common import write_report
from reloop.benchmarks.cost import work_of
from reloop.benchmarks.settings import NAMES, at_full_size, setting
from reloop.benchmarks.timing import Step, cuda_kernels, measure, warm_up
from reloop.benchmarks.variants import make_trainer, parse_variants, updates
from reloop.training.device import place

Totals = dict[str, tuple[int, float]]  # calls and microseconds by name


def main(words: list[str]) -> int:
    """Profile, and print a table; returns the exit code, 1 if the profiler sees nothing."""
    options = _parse(words)
    device, variant = options.device, options.variant
    config = at_full_size(setting(options.setting))
    variant.prepare()
    update, numbers = updates(make_trainer(config, device, variant), variant), count()

    def step() -> None:
        update(next(numbers))

    wall = measure(step, warm_up(step, options.warmup, device), device).wall
    measure_operations = cuda_kernels if device.type == "cuda" else cpu_operations
    rows = [
        {"name": name, "calls": calls / options.steps, "ms": microseconds / 1e3 / options.steps}
        for name, (calls, microseconds) in measure_operations(step, options.steps).items()
    ]
    rows.sort(key=lambda row: -row["ms"])
    busy = sum(row["ms"] for row in rows)
    if not busy:
        print("the profiler sees nothing on this machine")
        return 1
    work = work_of(config)
    rates = {
        "wall_ms": 1e3 * wall,
        "busy_ms": busy,
        "teraflop_per_second": work.flops / wall / 1e12,
        "teraflop_per_second_busy": work.flops / busy / 1e9,
        "gigabyte_per_second_busy": work.traffic() / busy / 1e6,
    }
    print(
        f"{options.setting}, {variant.name}: {1e3 * wall:.4g} ms a step, {busy:.4g} ms of it busy"
    )
    print(
        "computed work over measured time: "
        f"{rates['teraflop_per_second']:.3g} TFLOP/s over the step; over what is busy "
        f"{rates['teraflop_per_second_busy']:.3g} and {rates['gigabyte_per_second_busy']:.3g} GB/s"
    )
    print(f"{'ms a step':>10}{'share':>8}{'calls':>8}{'us each':>9}  name")
    for row in rows[: options.top]:
        us, name = 1e3 * row["ms"] / row["calls"], row["name"][:70]
        print(f"{row['ms']:10.4f}{row['ms'] / busy:8.1%}{row['calls']:8.1f}{us:9.2f}  {name}")
    if options.json:
        content = {"setting": options.setting, **variant.facts(), "rates": rates, "rows": rows}
        write_report(options.json, device, content)
    return 0


def cpu_operations(step: Step, steps: int) -> Totals:
    """Each operation's calls and microseconds (without children) in `steps` steps."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    return {row.key: (row.count, row.self_cpu_time_total) for row in profiler.key_averages()}


def _parse(words: list[str]) -> argparse.Namespace:
    parser = Parser(prog="benchmarks.profile_step", description=__doc__)
    parser.add_argument("--setting", choices=NAMES, default="sparse")
    variant_help = "backend and precision: cpu:fp32, on a GPU eager:fp32"
    parser.add_argument("--variant", metavar="B:P[:graph]", help=variant_help)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=at_least(1), default=10, help="that are profiled")
    parser.add_argument("--warmup", type=at_least(1), default=5)
    parser.add_argument("--top", type=at_least(1), default=25, help="rows of the table")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all rows")
    options = parser.parse_args(words)
    try:
        options.device = place(options.device, "auto", "auto").device
        default = "cpu:fp32" if options.device.type == "cpu" else "eager:fp32"
        variants = parse_variants(options.variant or default, options.device)
    except ValueError as error:
        parser.error(str(error))
    if len(variants) > 1:
        parser.error("--variant must be one")
    options.variant = variants[0]
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
