"""The time of a whole training step, beside a plain one and the reference's own code.

    python -m benchmarks.step 'configs=[sparse,small]' reference=../looped_transformer

Sampling the batch, forward, loss, backward and Adam at the end of the curriculum. All variants take
turns in one process; ratios are of pairs of turns, theirs / ours, given by median and quartiles: on
one thread of processor seconds, which other jobs disturb least, else of the clock. All numbers are
measured, except the hours of 500,000 steps at the measured rate and, on a GPU, the floor
(benchmarks/cost.py); on a CPU the floor is what this machine's own products take (cpu_floor.py).
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import statistics
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch

from reloop.benchmarks.common import (
    Ratio,
    device_name,
    load_reference,
    paired_ratio,
    reason,
    run_benchmark,
    write_report,
)
from reloop.benchmarks.cost import card_floor, known_card, work_of
from reloop.benchmarks.cpu_floor import SOURCE, measured_floor
from reloop.benchmarks.reference import FILES
from reloop.benchmarks.settings import StepSettings, at_full_size, named_config
from reloop.benchmarks.timing import Launches, Step, Times, launches, measure, peak_bytes, warm_up
from reloop.benchmarks.variants import Variant, checked, opponents
from reloop.conf.mistakes import RunError
from reloop.conf.schema import Config
from reloop.training.device import place

Basis = Literal["wall", "user", "system", "cpu"]  # which seconds: cpu is user and system
_PARTS: tuple[Basis, ...] = ("wall", "user", "system")
_RUN_STEPS = 500_000


class Floor(NamedTuple):
    """The seconds of the arithmetic alone, where their rates are from, and which seconds they
    are."""

    seconds: float
    source: str
    basis: Basis = "wall"


@dataclass
class Contender:
    """A variant with its step: the steps of one measurement, and the measurements. On a GPU also
    the peak of memory, the launches if they can be seen, and the floor if the card is known; on a
    CPU the floor if it is ours."""

    variant: Variant
    step: Step
    repeats: int
    times: list[Times] = field(default_factory=list)
    peak: int | None = None
    launches: Launches | None = None
    floor: Floor | None = None

    def seconds(self, basis: Basis) -> list[float]:
        """Each measurement's seconds a step of one run."""
        return [getattr(times, basis) / self.variant.runs for times in self.times]

    def median(self, basis: Basis) -> float:
        """Their median."""
        return statistics.median(self.seconds(basis))

    def of_floor(self) -> float | None:
        """The share of the floor that is reached."""
        return self.floor and self.floor.seconds / self.median(self.floor.basis)

    def hours(self) -> float:
        """Hours of a run at the measured rate."""
        return self.median("wall") * _RUN_STEPS / 3600

    def ratios(self, others: list[Contender], basis: Basis) -> dict[str, Ratio]:
        """The others' seconds over this one's, of those that are not ours, by their kind."""
        return {
            other.variant.kind: paired_ratio(other.seconds(basis), self.seconds(basis))
            for other in others
            if other.variant.side != "ours" and other is not self
        }

    def plain(self, ratios: Mapping[str, Ratio]) -> dict[str, object]:
        """All of it as plain values."""
        wall = self.median("wall")
        values = {
            **self.variant.facts(),
            "steps_a_measurement": self.repeats,
            "seconds": {key: self.seconds(key) for key in _PARTS},
            "median_s": {key: self.median(key) for key in get_args(Basis)},
            "steps_per_second": 1 / wall,
            "ratios": {kind: ratio._asdict() for kind, ratio in ratios.items()},
        }
        if self.floor:
            values |= {
                "floor_s": self.floor.seconds,
                "fraction_of_floor": self.of_floor(),
                "rates_from": self.floor.source,
            }
        if self.peak is None:
            return values
        values |= {"peak_bytes": self.peak, **(self.launches._asdict() if self.launches else {})}
        return values | {"hours_of_500k_steps_at_this_rate": self.hours()}


def main(words: list[str]) -> int:
    """Run the command; returns the exit code, 1 if a variant failed."""
    return run_benchmark("step", StepSettings, words, __doc__, _run)


def _run(settings: StepSettings) -> None:
    """Measure, print a table per configuration, write; RunError if a variant failed."""
    device = place(settings.device, "auto", "auto").device
    variants = _variants(settings, device)
    name, threads = device_name(device), torch.get_num_threads()
    basis: Basis = "cpu" if device.type == "cpu" and threads == 1 else "wall"
    print(
        f"{name}, {threads} threads; ratios: theirs / ours, {basis} seconds, {settings.pairs} pairs"
    )
    results: dict[str, object] = {}
    kinds = [variant.kind for variant in variants if variant.side != "ours"]
    number_failed = 0
    for name in settings.configs:
        config = at_full_size(named_config(name))
        print(f"\n{name}: {_describe(config)}\n{_head(device, kinds)}", flush=True)
        contenders, failures = _measure(config, variants, settings, device, basis)
        ratios = [contender.ratios(contenders, basis) for contender in contenders]
        pairs = list(zip(contenders, ratios, strict=True))
        for contender, its_ratios in pairs:
            print(_line(contender, [its_ratios.get(kind) for kind in kinds]), flush=True)
        for variant_name, message in failures.items():
            print(f"{variant_name:32} failed: {message}", flush=True)
        number_failed += len(failures)
        work = asdict(work_of(config)) | {"flops": work_of(config).flops}
        rows = [contender.plain(its_ratios) for contender, its_ratios in pairs]
        results[name] = {"work": work, "variants": rows, "failures": failures}
        # After every configuration, so that a failure loses only one.
        content = {"basis": basis, "pairs": settings.pairs, "settings": results}
        write_report(settings.json, device, content)
    if number_failed:
        raise RunError(f"{number_failed} measurements failed")


def _measure(
    config: Config,
    variants: list[Variant],
    settings: StepSettings,
    device: torch.device,
    basis: Basis,
) -> tuple[list[Contender], dict[str, str]]:
    """The measurements of all variants, taken in turn, and the errors of those that failed."""
    contenders: list[Contender] = []
    floors: dict[str, list[float]] = {}
    if device.type == "cpu":
        floors = {variant.precision: [] for variant in variants if variant.side == "ours"}
    failures: dict[str, str] = {}
    warmup = settings.warmup or (5 if device.type == "cuda" else 1)
    for variant in variants:
        with _recording_failures(variant, failures):
            contenders.append(_set_up(variant, config, device, warmup))
    for _ in range(settings.pairs):
        for precision, seconds in floors.items():
            seconds.append(measured_floor(work_of(config), precision))
        for contender in contenders:
            if contender.variant.name not in failures:
                with _recording_failures(contender.variant, failures):
                    contender.times.append(measure(contender.step, contender.repeats, device))
    contenders = [contender for contender in contenders if contender.variant.name not in failures]
    for contender in contenders:
        if contender.variant.side == "ours" and device.type == "cpu":
            median = statistics.median(floors[contender.variant.precision])
            contender.floor = Floor(median, SOURCE, basis)
    if device.type == "cuda":  # at the end: a profiled step may launch more slowly afterwards
        for contender in contenders:
            with _recording_failures(contender.variant, failures):
                contender.launches = launches(contender.step)
    return contenders, failures


@contextmanager
def _recording_failures(variant: Variant, failures: dict[str, str]) -> Iterator[None]:
    """Record any exception of a compiler or a card, so that the other variants continue."""
    try:
        variant.prepare()
        yield
    except Exception as error:
        failures[variant.name] = reason(error)


def _set_up(variant: Variant, config: Config, device: torch.device, warmup: int) -> Contender:
    if device.type != "cuda":
        step = variant.build(config, device)
        return Contender(variant, step, warm_up(step, warmup, device))
    memory_before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step = variant.build(config, device)
    contender = Contender(variant, step, warm_up(step, warmup, device))
    contender.peak = peak_bytes(step, memory_before, captured=variant.capture)
    if card := known_card(device_name(device)):
        contender.floor = Floor(card_floor(work_of(config), card, variant.precision), card.source)
    return contender


def _head(device: torch.device, kinds: list[str]) -> str:
    ratios = "".join(f"{'x ' + kind:>26}" for kind in kinds)
    if device.type == "cpu":
        seconds = "".join(f"{key + ' s':>9}" for key in (*_PARTS, "floor"))
        return f"{'':32}{seconds}{'of floor':>9}{'steps/s':>9}{ratios}"
    facts = f"{'kernels':>9}{'peak MiB':>9}{'of floor':>9}{'500k, h':>9}"
    return f"{'':32}{'wall ms':>9}{'steps/s':>9}{ratios}{facts}"


def _line(contender: Contender, ratios: list[Ratio | None]) -> str:
    wall = contender.median("wall")
    name, rate = f"{contender.variant.name:32}", f"{1 / wall:9.3g}"
    cells = "".join(f"{ratio or '-':>26}" for ratio in ratios)
    floor = f"{contender.of_floor():.1%}" if contender.floor else "-"
    if contender.peak is None:
        seconds = "".join(f"{contender.median(key):9.3g}" for key in _PARTS)
        least = f"{contender.floor.seconds:.3g}" if contender.floor else "-"
        return f"{name}{seconds}{least:>9}{floor:>9}{rate}{cells}"
    kernels = contender.launches.kernels if contender.launches else "-"
    facts = f"{kernels:>9}{contender.peak / 2**20:9.0f}{floor:>9}{contender.hours():9.2f}"
    return f"{name}{1e3 * wall:9.3g}{rate}{cells}{facts}"


def _describe(config: Config) -> str:
    task, model, loops = config.task, config.model, config.loops
    depth = f"{model.n_layer} layers"
    if model.family == "looped":
        depth = f"b = {loops.b}, T = {loops.T}"
    sizes = f"n = {task.points}, d = {task.dims}, B = {config.training.batch_size}"
    work = work_of(config)
    return f"{depth}, {sizes}, D = {model.n_embd}; {work.flops / 1e9:.4g} GFLOP a step (computed)"


def _variants(settings: StepSettings, device: torch.device) -> list[Variant]:
    """The variants to measure; those without graphs first, so that one-time work (such as tuning)
    does not count as a captured variant's memory. ConfigError if the device cannot run one, and for
    a folder that is no checkout."""
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
    return [*opponents(device, checkout, compiled="compile" in backends), *ours]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
