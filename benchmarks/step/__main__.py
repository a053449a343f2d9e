"""The time of a whole training step, beside the reference's own code.

    python -m benchmarks.step 'configs=[sparse,small]' reference=../looped_transformer

Sampling the batch, forward, loss, backward and Adam at the end of the curriculum. Each variant has
a process of its own, so that one that crashes or hangs (`limit`) stops no other; they take turns,
one computing at a time. Ratios are of pairs of turns, theirs / ours, given by median and quartiles:
on one thread of processor seconds, which other jobs disturb least, else of the clock. All numbers
are measured, except the hours of 500,000 steps at the measured rate and, on a GPU, the floor
(benchmarks/cost.py); on a CPU the floor is what this machine's own products take (cpu_floor.py).
The file is written after each turn, with the clocks of an NVIDIA GPU.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from reloop.benchmarks.common import device_name, load_reference, run_benchmark, write_report
from reloop.benchmarks.cost import work_of
from reloop.benchmarks.reference import FILES
from reloop.benchmarks.settings import StepSettings, at_full_size, named_config
from reloop.benchmarks.step.contender import Basis
from reloop.benchmarks.step.profile import profile_variant
from reloop.benchmarks.step.table import describe, head, line
from reloop.benchmarks.step.turns import Measured, span, take_turns
from reloop.benchmarks.step.worker import Plan
from reloop.benchmarks.variants import Variant, checked, opponents
from reloop.conf.mistakes import RunError
from reloop.conf.schema import Config
from reloop.training.device import place


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
    if checkout:
        load_reference(checkout, *FILES)
    ours = [
        checked(Variant("ours", backend, precision, capture, runs=runs), device)
        for runs in settings.runs
        for capture in sorted(settings.capture or ((False, True) if cuda else (False,)))
        for backend in backends
        for precision in precisions
    ]
    compiled = settings.compiled_reference
    if compiled is None:
        compiled = "compile" in backends
    return [*opponents(device, checkout, compiled=compiled), *ours]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
