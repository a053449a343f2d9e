"""The time of a whole training step, beside the reference's own code.

    python -m benchmarks.step 'configs=[sparse,small]' reference=../looped_transformer

Sampling the batch, forward, loss, backward and Adam at the end of the curriculum. Each variant has
a process of its own, so that one that crashes or hangs (`limit`) stops no other; they take turns,
one computing at a time. Ratios are of pairs of turns, theirs / ours, given by median and quartiles:
on one thread of processor seconds, which other jobs disturb least, else of the clock. All numbers
are measured, except on a GPU the hours of 500,000 steps at the measured rate and the floor
(benchmarks/cost.py). The file is written after each turn, with the clocks of an NVIDIA GPU.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from looplab.benchmarks.common import Ratio, device_name, paired_ratio, run_benchmark, write_report
from looplab.benchmarks.cost import CARDS, card_floor, work_of
from looplab.benchmarks.reference import FILES, load_reference
from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.timing import CLOCKS, measure, operations, warm_up
from looplab.benchmarks.turns import Turns
from looplab.benchmarks.variants import Variant, checked
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.training.device import place

_RUN_STEPS = 500_000
_STEPS, _WARMUP, _ROWS = 10, 5, 25  # of a profile: steps, those before them, and rows of its table


def main(words: list[str]) -> int:
    """Run the command; returns the exit code, 1 if a variant failed."""
    stopped = "stopped; the file holds every turn that was finished"
    return run_benchmark("step", StepSettings, words, __doc__, _run, stopped)


def _run(settings: StepSettings) -> None:
    """Measure, print a table per configuration, write; RunError if a variant failed."""
    device = place(settings.device, "auto", "auto").device
    compare(chosen(settings, device), settings, device)


def compare(variants: Sequence[Variant], settings: StepSettings, device: torch.device) -> None:
    """The same for these variants."""
    basis = "cpu" if device.type == "cpu" and torch.get_num_threads() == 1 else "wall"
    print(
        f"{device_name(device)}, {torch.get_num_threads()} threads; ratios: theirs / ours, {basis} "
        f"seconds, {settings.pairs} pairs"
    )
    results: dict[str, object] = {}
    failed = 0
    for name in settings.configs:
        config = at_full_size(named_config(name))
        turns = Turns(config, device, settings)
        print(f"\n{name}: {describe(config)}", flush=True)
        save = partial(_save, name, turns, basis, results)
        try:
            turns.take(variants, save)
        finally:  # also of what was stopped
            show(turns, rows_of(turns, basis))
        failed += len(turns.failures)
        if settings.profile:
            ours = [each.variant for each in turns.whole() if each.variant.side == "ours"]
            save({each.name: profile_variant(config, each, device) for each in ours})
    if failed:
        raise RunError(f"{failed} measurements failed")


def _save(
    name: str,
    turns: Turns,
    basis: str,
    results: dict[str, object],
    profiles: dict[str, object] | None = None,
) -> None:
    """Write what was measured so far, of this configuration and of those before it."""
    work = work_of(turns.config)
    results[name] = {
        "work": asdict(work) | {"flops": work.flops},
        "turns": turns.turns,
        "clocks": {"of": CLOCKS, "by_turn": turns.clocks} if turns.clocks else None,
        "variants": rows_of(turns, basis),
        "failures": turns.failures,
        **({"profiles": profiles} if profiles else {}),
    }
    content = {"basis": basis, "pairs": turns.settings.pairs, "settings": results}
    write_report(turns.settings.json, turns.device, content)


def rows_of(turns: Turns, basis: str) -> list[dict[str, Any]]:
    """The variants with their seconds, the ratios of those that are not ours to each, by kind, and
    on a GPU the peak of memory, the launches if they can be seen, and the floor if the card is
    known."""
    contenders = turns.whole()
    card = CARDS.get(device_name(turns.device)) if turns.device.type == "cuda" else None
    rows = []
    for each in contenders:
        seconds = {part: each.seconds(part) for part in ("wall", "user", "system", "cpu")}
        medians = {part: median(values) for part, values in seconds.items()}
        row: dict[str, Any] = {
            **each.variant.facts(),
            "steps_a_measurement": each.repeats,
            "seconds": seconds,
            "median_s": medians,
            "ratios": {
                other.variant.kind: paired_ratio(other.seconds(basis), seconds[basis])._asdict()
                for other in contenders
                if other.variant.side != "ours" and other is not each
            },
            **each.facts,
        }
        if card:
            floor = card_floor(work_of(turns.config), card, each.variant.precision)
            row |= {"floor_s": floor, "fraction_of_floor": floor / medians["wall"]}
            row["rates_from"] = card.source
        rows.append(row)
    return rows


def show(turns: Turns, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the medians of each variant and its ratios; the failures; the clocks."""
    on_gpu = turns.device.type == "cuda"
    kinds = [each.variant.kind for each in turns.whole() if each.variant.side != "ours"]
    if on_gpu:
        columns = ["wall ms", "kernels", "peak MiB", "of floor", "500k, h"]
    else:
        columns = ["wall s", "user s", "system s"]
    if rows:
        ratios = "".join(f"{'x ' + kind:>26}" for kind in kinds)
        print(f"{'':32}" + "".join(f"{name:>9}" for name in (*columns, "steps/s")) + ratios)
    for row in rows:
        medians = row["median_s"]
        if on_gpu:
            floor = row.get("fraction_of_floor")
            cells = [
                f"{1e3 * medians['wall']:.3g}",
                str(row.get("kernels", "-")),
                f"{row['peak_bytes'] / 2**20:.0f}",
                f"{floor:.1%}" if floor else "-",
                f"{medians['wall'] * _RUN_STEPS / 3600:.2f}",
            ]
        else:
            cells = [f"{medians[part]:.3g}" for part in ("wall", "user", "system")]
        cells.append(f"{1 / medians['wall']:.3g}")
        found = [row["ratios"].get(kind) for kind in kinds]
        ratios = "".join(f"{Ratio(**ratio) if ratio else '-':>26}" for ratio in found)
        print(f"{row['name']:32}" + "".join(f"{cell:>9}" for cell in cells) + ratios)
    for name, message in turns.failures.items():
        print(f"{name:32} failed: {message}")
    for clocks in turns.clocks:
        print(f"{CLOCKS}: {clocks}")
    sys.stdout.flush()


def describe(config: Config) -> str:
    """The sizes of a configuration and its work, in a line."""
    task, model, loops = config.task, config.model, config.loops
    looped = f"b = {loops.b}, T = {loops.T}"
    depth = looped if model.family == "looped" else f"{model.n_layer} layers"
    sizes = f"n = {task.points}, d = {task.dims}, B = {config.training.batch_size}"
    work = work_of(config)
    return f"{depth}, {sizes}, D = {model.n_embd}; {work.flops / 1e9:.4g} GFLOP a step (computed)"


def chosen(settings: StepSettings, device: torch.device) -> list[Variant]:
    """The variants to measure. ConfigError if the device cannot run one, and for a folder that is
    no checkout."""
    cuda = device.type == "cuda"
    backends = settings.backend or (("eager", "compile", "triton") if cuda else ("cpu",))
    precisions = settings.precision or (("tf32", "bf16") if cuda else ("fp32", "bf16"))
    ours = [
        checked(Variant("ours", backend, precision, capture, runs=runs), device)
        for runs in settings.runs
        for capture in sorted(settings.capture or ((False, True) if cuda else (False,)))
        for backend in backends
        for precision in precisions
    ]
    if not settings.reference:
        return ours
    checkout = Path(settings.reference)
    load_reference(checkout, *FILES)
    compiled = settings.compiled_reference
    if compiled is None:
        compiled = "compile" in backends
    precision = "tf32" if cuda else "fp32"
    names = ("eager", "compile") if compiled else ("eager",)
    return [*(Variant("reference", name, precision, checkout=checkout) for name in names), *ours]


def profile_variant(config: Config, variant: Variant, device: torch.device) -> dict[str, object]:
    """Print and return where a variant's step spends its time: on a GPU by kernel, on a CPU by
    operation; RunError if the profiler sees nothing. The step's own time is measured before,
    without the profiler; FLOPs and bytes are those of benchmarks/cost.py (the bytes under its
    fusion, whatever the backend fuses), and rates are that work over the measured time."""
    step = variant.build(config, device)
    wall = measure(step, warm_up(step, _WARMUP, device), device).wall
    totals = operations(step, _STEPS, device)
    names = sorted(totals, key=lambda name: -totals[name][1])
    rows: list[dict[str, Any]] = [
        {"name": name, "calls": totals[name][0] / _STEPS, "ms": totals[name][1] / 1e3 / _STEPS}
        for name in names
    ]
    busy = sum(microseconds for _, microseconds in totals.values()) / 1e3 / _STEPS
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
    print(f"\n{variant.name}: " + ", ".join(f"{key} {rate:.4g}" for key, rate in rates.items()))
    print(f"{'ms a step':>10}{'share':>8}{'calls':>8}  name")
    for row in rows[:_ROWS]:
        print(f"{row['ms']:10.4f}{row['ms'] / busy:8.1%}{row['calls']:8.1f}  {row['name'][:70]}")
    return {"rates": rates, "rows": rows}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
