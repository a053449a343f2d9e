"""The time of a whole training step, beside a plain one and the reference's own code.

    python -m benchmarks.step --settings sparse,small --reference ../looped_transformer

Sampling the batch, forward, loss, backward and Adam at the end of the curriculum. All variants take
turns in one process; ratios are of pairs of turns, theirs / ours, given by median and quartiles: on
one thread of processor seconds, which other jobs disturb least, else of the clock. All numbers are
measured, except the floor (benchmarks/cost.py) and the hours of 500,000 steps at the measured rate.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import argparse
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from reloop.benchmarks.arguments import Parser, at_least, listed
from reloop.benchmarks.common import (
    Ratio,
    device_name,
    load_reference,
    paired_ratio,
    reason,
    write_report,
)
from reloop.benchmarks.cost import known_card, work_of
from reloop.benchmarks.reference import FILES
from reloop.benchmarks.settings import NAMES, at_full_size, setting
from reloop.benchmarks.timing import Step, Times, launches, measure, peak_bytes, warm_up
from reloop.benchmarks.variants import BACKENDS, PRECISIONS, Variant, checked, opponents
from reloop.conf.schema import Config
from reloop.training.device import place

_RUN_STEPS = 500_000


@dataclass
class Contender:
    """A variant with its step: the steps of one measurement, and the measurements."""

    variant: Variant
    step: Step
    repeats: int
    facts: dict[str, Any]
    times: list[Times] = field(default_factory=list)

    def seconds(self, basis: str) -> list[float]:
        """Each measurement's seconds a step; `basis` is a field of Times, or cpu."""
        return [getattr(times, basis) for times in self.times]

    def median(self, basis: str) -> float:
        """Their median."""
        return statistics.median(self.seconds(basis))


def main(words: list[str]) -> int:
    """Measure and print a table per setting; returns the exit code, 1 if a variant failed."""
    options = _parse(words)
    device = options.device
    name, threads = device_name(device), torch.get_num_threads()
    basis = "cpu" if device.type == "cpu" and threads == 1 else "wall"
    print(
        f"{name}, {threads} threads; ratios: theirs / ours, {basis} seconds, {options.pairs} pairs"
    )
    report: dict[str, Any] = {"basis": basis, "pairs": options.pairs, "settings": {}}
    kinds = [variant.kind for variant in options.variants if variant.side != "ours"]
    has_failures = False
    for name in options.settings:
        config = at_full_size(setting(name))
        print(f"\n{name}: {_describe(config)}\n{_head(device, kinds)}", flush=True)
        contenders, failures = _measure(config, options)
        rows = [_result(contender, contenders, config, basis) for contender in contenders]
        for row in rows:
            print(_line(row, device, kinds), flush=True)
        for variant_name, message in failures.items():
            print(f"{variant_name:32} failed: {message}", flush=True)
        has_failures |= bool(failures)
        work = asdict(work_of(config)) | {"flops": work_of(config).flops}
        report["settings"][name] = {"work": work, "variants": rows, "failures": failures}
        if options.json:  # after every setting, so that a failure loses only one
            write_report(options.json, device, report)
    return int(has_failures)


def _measure(config: Config, options: argparse.Namespace) -> tuple[list[Contender], dict[str, str]]:
    """The measurements of all variants, taken in turn, and the errors of those that failed."""
    contenders: list[Contender] = []
    failures: dict[str, str] = {}
    for variant in options.variants:
        with _recording_failures(variant, failures):
            contenders.append(_set_up(variant, config, options))
    for _ in range(options.pairs):
        for contender in contenders:
            if contender.variant.name not in failures:
                with _recording_failures(contender.variant, failures):
                    contender.times.append(
                        measure(contender.step, contender.repeats, options.device)
                    )
    contenders = [contender for contender in contenders if contender.variant.name not in failures]
    if options.device.type == "cuda":
        for (
            contender
        ) in contenders:  # at the end: a profiled step may launch more slowly afterwards
            with _recording_failures(contender.variant, failures):
                contender.facts |= launches(contender.step)
    return contenders, failures


@contextmanager
def _recording_failures(variant: Variant, failures: dict[str, str]) -> Iterator[None]:
    """Record any exception of a compiler or a card, so that the other variants continue."""
    try:
        variant.prepare()
        yield
    except Exception as error:
        failures[variant.name] = reason(error)


def _set_up(variant: Variant, config: Config, options: argparse.Namespace) -> Contender:
    device, memory_before = options.device, 0
    facts: dict[str, Any] = {}
    if device.type == "cuda":
        memory_before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    step = variant.build(config, device)
    repeats = warm_up(step, options.warmup, device)
    if device.type == "cuda":
        facts["peak_bytes"] = peak_bytes(step, memory_before, captured=variant.capture)
    return Contender(variant, step, repeats, facts)


def _result(
    contender: Contender, contenders: list[Contender], config: Config, basis: str
) -> dict[str, Any]:
    """The measurements of a contender as plain values."""
    variant, wall = contender.variant, contender.median("wall")
    ratios = {
        other.variant.kind: paired_ratio(other.seconds(basis), contender.seconds(basis))
        for other in contenders
        if other.variant.side != "ours" and other is not contender
    }
    row = {
        **variant.facts(),
        "steps_a_measurement": contender.repeats,
        "seconds": {key: contender.seconds(key) for key in Times._fields},
        "median_s": {key: contender.median(key) for key in (*Times._fields, "cpu")},
        "steps_per_second": 1 / wall,
        "ratios": {kind: ratio._asdict() for kind, ratio in ratios.items()},
        **contender.facts,
    }
    card = known_card(device_name(torch.device("cuda"))) if contender.facts else None
    if card is not None:
        floor = work_of(config).flops / card.rates[variant.precision]
        row |= {"floor_s": floor, "fraction_of_floor": floor / wall, "rates_from": card.source}
    if contender.facts:
        row["hours_of_500k_steps_at_this_rate"] = wall * _RUN_STEPS / 3600
    return row


def _head(device: torch.device, kinds: list[str]) -> str:
    ratios = "".join(f"{'x ' + kind:>26}" for kind in kinds)
    if device.type == "cpu":
        return f"{'':32}{'wall s':>9}{'user s':>9}{'system s':>9}{'steps/s':>9}{ratios}"
    facts = f"{'kernels':>9}{'peak MiB':>9}{'of floor':>9}{'500k, h':>9}"
    return f"{'':32}{'wall ms':>9}{'steps/s':>9}{ratios}{facts}"


def _line(row: dict[str, Any], device: torch.device, kinds: list[str]) -> str:
    median, rate = row["median_s"], f"{row['steps_per_second']:9.3g}"
    ratios = "".join(
        f"{Ratio(**row['ratios'][kind]) if kind in row['ratios'] else '-':>26}" for kind in kinds
    )
    if device.type == "cpu":
        seconds = "".join(f"{median[key]:9.3g}" for key in Times._fields)
        return f"{row['name']:32}{seconds}{rate}{ratios}"
    floor = f"{row['fraction_of_floor']:9.1%}" if "floor_s" in row else f"{'-':>9}"
    facts = f"{row.get('kernels', '-'):>9}{row['peak_bytes'] / 2**20:9.0f}{floor}"
    hours = f"{row['hours_of_500k_steps_at_this_rate']:9.2f}"
    return f"{row['name']:32}{1e3 * median['wall']:9.3g}{rate}{ratios}{facts}{hours}"


def _describe(config: Config) -> str:
    task, model, loops = config.task, config.model, config.loops
    depth = f"{model.n_layer} layers"
    if model.family == "looped":
        depth = f"b = {loops.b}, T = {loops.T}"
    sizes = f"n = {task.points}, d = {task.dims}, B = {config.training.batch_size}"
    work = work_of(config)
    return f"{depth}, {sizes}, D = {model.n_embd}; {work.flops / 1e9:.4g} GFLOP a step (computed)"


def _parse(words: list[str]) -> argparse.Namespace:
    parser = Parser(prog="benchmarks.step", description=__doc__)
    parser.add_argument("--settings", type=listed(NAMES), default=list(NAMES), metavar="A,B")
    parser.add_argument("--reference", type=Path, metavar="DIR", help="a checkout of the reference")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", type=listed(PRECISIONS), metavar="A,B", help="of ours")
    parser.add_argument("--backends", type=listed(BACKENDS), metavar="A,B", help="of ours")
    parser.add_argument("--capture", choices=("on", "off", "both"), help="CUDA graphs of ours")
    parser.add_argument("--pairs", type=at_least(2), default=7, help="measurements of each variant")
    parser.add_argument("--warmup", type=at_least(1), help="steps before them: 1, on CUDA 5")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything measured")
    options = parser.parse_args(words)
    try:
        options.device = place(options.device, "auto", "auto").device
        cuda = options.device.type == "cuda"
        options.warmup = options.warmup or (5 if cuda else 1)
        options.precision = options.precision or (["tf32", "bf16"] if cuda else ["fp32", "bf16"])
        options.backends = options.backends or (["eager", "compile", "triton"] if cuda else ["cpu"])
        options.capture = options.capture or ("both" if cuda else "off")
        if options.reference:
            load_reference(options.reference, *FILES)
        options.variants = _variants(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def _variants(options: argparse.Namespace) -> list[Variant]:
    """The variants to measure; those without graphs first, so that one-time work (such as tuning)
    does not count as a captured variant's memory."""
    captures = {"off": [False], "on": [True], "both": [False, True]}[options.capture]
    ours = [
        checked(Variant("ours", backend, precision, capture), options.device)
        for capture in captures
        for backend in options.backends
        for precision in options.precision
    ]
    compiled = "compile" in options.backends
    return [*opponents(options.device, options.reference, compiled=compiled), *ours]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
