"""The time of a whole training step, beside the reference's own code.

    python -m benchmarks.step 'configs=[sparse,small]' reference=../looped_transformer

Sampling the batch, forward, loss, backward and Adam at the end of the curriculum. Each variant has
a process of its own, so that one that crashes or hangs (`limit`) stops no other; they take turns,
one computing at a time. Ratios are of pairs of turns, theirs / ours, given by median and quartiles:
on one thread of processor seconds, which other jobs disturb least, else of the clock. All numbers
are measured, except the hours of 500,000 steps at the measured rate and, on a GPU, the floor
(benchmarks/cost.py); on a CPU the floor is what this machine's own products take.
The file is written after each turn, with the clocks of an NVIDIA GPU.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from looplab.benchmarks.common import device_name, load_reference, run_benchmark, write_report
from looplab.benchmarks.cost import work_of
from looplab.benchmarks.reference import FILES
from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.step.contender import Basis, describe, head, line
from looplab.benchmarks.step.turns import Measured, Plan, span, take_turns
from looplab.benchmarks.timing import Step, Totals, cuda_kernels, warm_up
from looplab.benchmarks.timing import measure as time_steps
from looplab.benchmarks.variants import Variant, checked
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.training.device import place

_STEPS, _WARMUP = 10, 5  # of a profile
_ROWS = 25  # of a profile's table


def main(words: list[str]) -> int:
    """Run the command; returns the exit code, 1 if a variant failed."""
    stopped = "stopped; the file holds every turn that was finished"
    return run_benchmark("step", StepSettings, words, __doc__, _run, stopped)


def _run(settings: StepSettings) -> None:
    """Measure, print a table per configuration, write; RunError if a variant failed."""
    device = place(settings.device, "auto", "auto").device
    variants = chosen(settings, device)
    measure(variants, settings, device)


def measure(variants: list[Variant], settings: StepSettings, device: torch.device) -> None:
    """The same for these variants."""
    threads = torch.get_num_threads()
    basis: Basis = "cpu" if device.type == "cpu" and threads == 1 else "wall"
    print(
        f"{device_name(device)}, {threads} threads; ratios: theirs / ours, {basis} seconds, "
        f"{settings.pairs} pairs"
    )
    results: dict[str, object] = {}
    number_failed = 0
    for name in settings.configs:
        config, measured = at_full_size(named_config(name)), Measured(basis)
        warmup = settings.warmup or (5 if device.type == "cuda" else 1)
        plan = Plan(config, device, warmup, settings.least, threads)

        def save(
            name: str, config: Config, measured: Measured, profiles: dict[str, Any] | None = None
        ) -> None:
            results[name] = _plain(config, measured) | ({"profiles": profiles} if profiles else {})
            content = {"basis": basis, "pairs": settings.pairs, "settings": results}
            write_report(settings.json, device, content)

        print(f"\n{name}: {describe(config)}", flush=True)
        try:
            written = partial(save, name, config, measured)
            take_turns(measured, variants, plan, settings.pairs, settings.limit, written)
        finally:  # also of what was stopped
            _print(measured, variants, device)
        number_failed += len(measured.failures)
        if settings.profile:
            ours = [each.variant for each in measured.rows() if each.variant.side == "ours"]
            profiles = {each.name: profile_variant(config, each, device) for each in ours}
            save(name, config, measured, profiles)
    if number_failed:
        raise RunError(f"{number_failed} measurements failed")


def _plain(config: Config, measured: Measured) -> dict[str, object]:
    """What was measured of a configuration so far, as plain values."""
    rows = measured.rows() if measured.turns else []
    return {
        "work": asdict(work_of(config)) | {"flops": work_of(config).flops},
        "turns": measured.turns,
        "clocks": [clocks._asdict() for clocks in measured.clocks] or None,
        "variants": [row.plain(row.ratios(rows, measured.basis)) for row in rows],
        "failures": measured.failures,
    }


def _print(measured: Measured, variants: list[Variant], device: torch.device) -> None:
    kinds = [variant.kind for variant in variants if variant.side != "ours"]
    rows = measured.rows() if measured.turns else []
    if rows:
        print(head(device, kinds))
    for row in rows:
        ratios = row.ratios(rows, measured.basis)
        print(line(row, [ratios.get(kind) for kind in kinds]))
    for name, message in measured.failures.items():
        print(f"{name:32} failed: {message}")
    if measured.clocks:
        print(f"clocks between turns: {span(measured.clocks)}")
    sys.stdout.flush()


def chosen(settings: StepSettings, device: torch.device) -> list[Variant]:
    """The variants to measure. ConfigError if the device cannot run one, and for a folder that is
    no checkout."""
    cuda = device.type == "cuda"
    backends = settings.backend or (("eager", "compile", "triton") if cuda else ("cpu",))
    precisions = settings.precision or (("tf32", "bf16") if cuda else ("fp32", "bf16"))
    checkout = Path(settings.reference) if settings.reference else None
    ours = [
        checked(Variant("ours", backend, precision, capture, runs=runs), device)
        for runs in settings.runs
        for capture in sorted(settings.capture or ((False, True) if cuda else (False,)))
        for backend in backends
        for precision in precisions
    ]
    if not checkout:
        return ours
    load_reference(checkout, *FILES)
    compiled = settings.compiled_reference
    if compiled is None:
        compiled = "compile" in backends
    precision = "tf32" if cuda else "fp32"
    names = ("eager", "compile") if compiled else ("eager",)
    return [*(Variant("reference", name, precision, checkout=checkout) for name in names), *ours]


class Row(NamedTuple):
    """A kernel or an operation: calls and milliseconds of a step."""

    name: str
    calls: float
    ms: float


def profile_variant(config: Config, variant: Variant, device: torch.device) -> dict[str, object]:
    """Print and return where a variant's step spends its time: on a GPU by kernel, on a CPU by
    operation; RunError if the profiler sees nothing. The step's own time is measured before,
    without the profiler; FLOPs and bytes are those of benchmarks/cost.py (the bytes under its
    fusion, whatever the backend fuses), and rates are that work over the measured time."""
    step = variant.build(config, device)
    wall = time_steps(step, warm_up(step, _WARMUP, device), device).wall
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
