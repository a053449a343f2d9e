"""The time of a whole training step, beside the reference's own code.

    python -m benchmarks.step configs=sparse,small reference=../looped_transformer

A step samples the batch, runs forward, loss and backward, and updates by Adam, all at the end of
the curriculum. Each variant has a process of its own, so that one that crashes or hangs (`limit`)
stops no other. The variants take turns, one computing at a time.

Ratios are of pairs of turns, theirs / ours, given by median and quartiles. On one thread they are
of processor seconds, which other jobs disturb least, else of the clock. All numbers are measured,
except the floor on a GPU: the seconds of the arithmetic alone. The file is written after each turn,
with the clocks of an NVIDIA GPU.
"""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from looplab.benchmarks.common import Ratio, device_name, paired_ratio, run_benchmark, write_report
from looplab.benchmarks.paired_times import CLOCKS, PARTS, PairedTimes, measure, warm_up
from looplab.benchmarks.reference import load_reference
from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.variants import Step, Variant, checked
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.experiments.gpu_time import sizes_of
from looplab.models.flops import pass_costs
from looplab.show.tables import Part, Table, document
from looplab.training.assemble import build_model, build_task, last_stage
from looplab.training.device import place

_HOPPER = {"bf16": 800e12, "tf32": 400e12, "fp32": 67e12}
# FLOPs a second by precision, of cards by the driver's full name, so that no PCIe card or MIG slice
# matches. Hopper: bf16 (a large dense product) as measured once on an H100 SXM, tf32 half of it,
# fp32 without tensor cores from the vendor's sheet.
RATES = {"NVIDIA H100 80GB HBM3": _HOPPER, "NVIDIA H200": _HOPPER}
_STEPS = 10  # of a profile
_WARMUP = 5  # steps before them
_ROWS = 25  # of the profile's table


def main(words: list[str]) -> int:
    """Run the command; returns the exit code, 1 if a variant failed."""
    return run_benchmark("step", StepSettings, words, __doc__, _run)


def _run(settings: StepSettings) -> None:
    """Measure, print a table per configuration, write; RunError if a variant failed."""
    device = place(settings.device, "auto", "auto").device
    compare(chosen(settings, device), settings, device)


def compare(variants: Sequence[Variant], settings: StepSettings, device: torch.device) -> None:
    """Measure, print and write these variants."""
    # Other jobs disturb the clock, and hardly the processor seconds of one thread.
    basis = "cpu" if device.type == "cpu" and torch.get_num_threads() == 1 else "wall"
    print(
        f"{device_name(device)}, {torch.get_num_threads()} threads; ratios: theirs / ours, {basis} "
        f"seconds, {settings.pairs} pairs"
    )
    results: dict[str, object] = {}
    failed = 0
    for name in settings.configs:
        config = at_full_size(named_config(name))
        turns = PairedTimes(config, device, settings)
        print(f"\n{name}: {step_flops(config) / 1e9:.4g} GFLOP a step (computed)", flush=True)
        save = partial(_save, name, turns, basis, results)
        try:
            turns.take(variants, save)
        finally:  # also of what was stopped
            print(shown(turns, rows_of(turns, basis)), flush=True)
        failed += len(turns.failures)
        if settings.profile:
            for measured in turns.whole():
                variant = measured.variant
                if variant.side == "ours":
                    turns.profiles[variant.name] = profile_variant(config, variant, device)
            save()
    if failed:
        raise RunError(f"{failed} measurements failed")


def _save(name: str, turns: PairedTimes, basis: str, results: dict[str, object]) -> None:
    """Write what was measured so far, of this configuration and of those before it."""
    config = turns.config
    stage = last_stage(config, build_task(config))
    clocks = {"of": CLOCKS, "by_turn": turns.clocks} if turns.clocks else None
    measured: dict[str, object] = {"flops": step_flops(config), "shape": sizes_of(config, stage)}
    measured |= {"turns": turns.turns, "clocks": clocks, "variants": rows_of(turns, basis)}
    measured |= {"failures": turns.failures, "profiles": turns.profiles}
    results[name] = measured
    content = {"basis": basis, "pairs": turns.settings.pairs, "settings": results}
    write_report(turns.settings.json, turns.device, content)


def rows_of(turns: PairedTimes, basis: str) -> list[dict[str, Any]]:
    """The variants with their seconds, and by kind the ratio of each that is not ours to them. Of
    our kernels also which of their variants ran. On a GPU also the peak of memory and, if the
    card's rate is known, the floor."""
    rates = RATES.get(device_name(turns.device), {})
    rows = []
    for measured in turns.whole():
        variant = measured.variant
        seconds = {}
        for clock in PARTS:
            seconds[clock] = [times[clock] for times in measured.times]
        ratios = {}
        for other in turns.whole():
            # Each of theirs is a basis: every row has its ratio to each of them.
            if other.variant.side != "ours" and other is not measured:
                theirs = [times[basis] for times in other.times]
                ratios[other.variant.kind] = paired_ratio(theirs, seconds[basis])._asdict()
        row: dict[str, Any] = {
            "name": variant.name,
            "side": variant.side,
            "backend": variant.backend,
            "precision": variant.precision,
            "capture": variant.capture,
            "steps_a_measurement": measured.repeats,
            "seconds": seconds,
            "median_s": {clock: median(values) for clock, values in seconds.items()},
            "ratios": ratios,
        }
        if variant.side == "ours":
            choice = variant.placement(turns.config, turns.device).choice
            row |= {"kernels": asdict(choice)} if choice else {}  # as in environment.json
        row |= measured.facts
        rate = rates.get(variant.precision)
        if rate:
            row["floor_s"] = step_flops(turns.config) / rate
            row["fraction_of_floor"] = row["floor_s"] / row["median_s"]["wall"]
        rows.append(row)
    return rows


def shown(turns: PairedTimes, rows: Sequence[Mapping[str, Any]]) -> str:
    """The medians of each variant and its ratios, the failures and the clocks, as text."""
    on_gpu = turns.device.type == "cuda"
    kinds = []
    for measured in turns.whole():
        if measured.variant.side != "ours":
            kinds.append(measured.variant.kind)
    lines = []
    for row in rows:
        medians = row["median_s"]
        wall = medians["wall"]
        floor = row.get("fraction_of_floor")
        cells = [row["name"], f"{wall:.3g}"]
        if on_gpu:
            # Processor seconds say little on a GPU: memory, and the share of the card's rate.
            cells += [f"{row['peak_bytes'] / 2**20:.0f}", f"{floor:.1%}" if floor else "–"]
        else:
            cells += [f"{medians['user']:.3g}", f"{medians['system']:.3g}"]
        cells.append(f"{1 / wall:.3g}")
        for kind in kinds:
            ratio = row["ratios"].get(kind)
            cells.append(str(Ratio(**ratio)) if ratio else "–")
        lines.append(cells)
    parts: list[Part] = []
    if rows:
        columns = ["peak MiB", "of floor"] if on_gpu else ["user s", "system s"]
        head = ["variant", "wall s", *columns, "steps/s"]
        parts.append(Table(head + [f"x {kind}" for kind in kinds], lines))
    parts += [f"{name} failed: {message}" for name, message in turns.failures.items()]
    parts += [f"{CLOCKS}: {clocks}" for clocks in turns.clocks]
    return document(parts)


def step_flops(config: Config) -> float:
    """The FLOPs of a step at the curriculum's end, as `action=plan` counts them."""
    task = build_task(config)
    stage = last_stage(config, task)
    # Without the last y, as in training.
    costs = pass_costs(build_model(config, task), config.task.tokens_of(stage.points))
    return config.training.batch_size * costs.of_step(stage.loops, stage.grad_loops, stage.window)


def chosen(settings: StepSettings, device: torch.device) -> list[Variant]:
    """The variants to measure. ConfigError if the device cannot run one, and for a folder that is
    no checkout."""
    ours = []
    for capture, backend, precision in product(
        settings.capture, settings.backend, settings.precision
    ):
        ours.append(checked(Variant("ours", backend, precision, capture), device))
    if not settings.reference:
        return ours
    checkout = Path(settings.reference)
    load_reference(checkout)
    eager = Variant(
        "reference", "eager", "tf32" if device.type == "cuda" else "fp32", checkout=checkout
    )
    if settings.compiled_reference:
        return [eager, replace(eager, backend="compile"), *ours]
    return [eager, *ours]


def profile_variant(config: Config, variant: Variant, device: torch.device) -> dict[str, object]:
    """Print and return where a variant's step spends its time: on a GPU by kernel, on a CPU by
    operation; RunError if the profiler sees nothing. The step's own time is measured before,
    without the profiler; rates are the step's FLOPs over the measured time."""
    step = variant.build(config, device)
    wall = measure(step, warm_up(step, _WARMUP, device), device)["wall"]
    totals = operations(step, device)
    rows: list[dict[str, Any]] = []
    for name, (calls, microseconds) in totals.items():
        rows.append({"name": name, "calls": calls / _STEPS, "ms": microseconds / 1e3 / _STEPS})
    rows.sort(key=lambda row: -row["ms"])
    busy = sum(row["ms"] for row in rows)
    if not busy:
        raise RunError("the profiler sees nothing on this machine")
    flops = step_flops(config)
    rates = {
        "wall_ms": 1e3 * wall,
        "busy_ms": busy,
        "teraflop_per_second": flops / wall / 1e12,
        # `busy` is in milliseconds.
        "teraflop_per_second_busy": flops / busy / 1e9,
    }
    lines = []
    for row in rows[:_ROWS]:
        share = f"{row['ms'] / busy:.1%}"
        lines.append([row["name"][:70], f"{row['ms']:.4f}", share, f"{row['calls']:.1f}"])
    rate_words = ", ".join(f"{key} {rate:.4g}" for key, rate in rates.items())
    print(f"\n{variant.name}: {rate_words}")
    print(document([Table(["name", "ms a step", "share", "calls"], lines)]), flush=True)
    return {"rates": rates, "rows": rows}


def operations(step: Step, device: torch.device) -> dict[str, tuple[int, float]]:
    """Calls and microseconds in `_STEPS` steps: on a GPU of each kernel, copies and fills included;
    on a CPU of each operation without its children."""
    on_gpu = device.type == "cuda"
    activity = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiler:
        for _ in range(_STEPS):
            step()
        if on_gpu:
            torch.cuda.synchronize(device)
    totals = {}
    for row in profiler.key_averages():
        if row.device_type.name == device.type.upper() and not row.is_user_annotation:
            microseconds = row.self_device_time_total if on_gpu else row.self_cpu_time_total
            totals[row.key] = row.count, microseconds
    return totals


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
