"""Turns: in each, every variant makes one measurement, one after another.

Ratios of one turn's measurements are paired: a slow phase of the machine slows both sides.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from ..common import device_name
from ..cost import card_floor, known_card, work_of
from ..cpu_floor import SOURCE, measured_floor
from ..timing import Times
from ..variants import Variant
from .contender import Basis, Contender, Floor
from .worker import Plan, VariantFailed, Worker

_FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"
_SECONDS = 10.0  # for nvidia-smi to answer


@dataclass
class Measured:
    """What has been measured so far: the variants that have not failed, the errors of the others,
    and on a GPU its clocks before the first turn and after each. `basis` is the kind of seconds of
    a CPU's floor."""

    basis: Basis
    contenders: list[Contender] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    clocks: list[Clocks] = field(default_factory=list)
    turns: int = 0

    def rows(self) -> list[Contender]:
        """The variants with a measurement of every turn."""
        return [each for each in self.contenders if len(each.times) == self.turns]

    @contextmanager
    def recording(self, variant: Variant) -> Iterator[None]:
        """Record that this variant failed, so that the others continue."""
        try:
            yield
        except VariantFailed as failure:
            self.failures[variant.name] = str(failure)


def take_turns(
    measured: Measured,
    variants: Sequence[Variant],
    plan: Plan,
    pairs: int,
    limit: float | None,
    save: Callable[[], None],
) -> None:
    """Build all variants and let them take `pairs` turns; `save` is called when all are built,
    after each turn, and at the end. Whatever ends it, no process is left."""
    workers: dict[str, Worker] = {}
    with ExitStack() as stack:
        for variant in variants:
            with measured.recording(variant):
                worker = Worker(variant, plan, limit)
                stack.callback(worker.end)
                contender = Contender(variant, *worker.ready())
                contender.floor = _card_floor(variant, plan)
                measured.contenders.append(contender)
                workers[variant.name] = worker
        save()
        floors = _Floors(measured.contenders, plan)
        _note_clocks(measured, plan)
        for _ in range(pairs):
            floors.measure()
            turn: list[tuple[Contender, Times]] = []
            for contender in measured.rows():
                with measured.recording(contender.variant):
                    turn.append((contender, workers[contender.variant.name].measure()))
            for contender, times in turn:  # only whole turns count
                contender.times.append(times)
            measured.turns += 1
            _note_clocks(measured, plan)
            floors.give(measured)
            save()
        if plan.device.type == "cuda":  # at the end: a profiled step may launch more slowly later
            for contender in measured.rows():
                with measured.recording(contender.variant):
                    contender.launches = workers[contender.variant.name].launches()
            save()


class _Floors:
    """On a CPU, what the products of our variants take, measured in each turn by precision."""

    def __init__(self, contenders: Sequence[Contender], plan: Plan) -> None:
        on_cpu = plan.device.type == "cpu"
        ours = [each.variant for each in contenders if on_cpu and each.variant.side == "ours"]
        self._seconds: dict[str, list[float]] = {variant.precision: [] for variant in ours}
        self._work = work_of(plan.config)

    def measure(self) -> None:
        for precision, seconds in self._seconds.items():
            seconds.append(measured_floor(self._work, precision))

    def give(self, measured: Measured) -> None:
        for contender in measured.contenders:
            if contender.variant.side == "ours" and contender.variant.precision in self._seconds:
                median = statistics.median(self._seconds[contender.variant.precision])
                contender.floor = Floor(median, SOURCE, measured.basis)


def _card_floor(variant: Variant, plan: Plan) -> Floor | None:
    if plan.device.type != "cuda" or not (card := known_card(device_name(plan.device))):
        return None
    return Floor(card_floor(work_of(plan.config), card, variant.precision), card.source)


def _note_clocks(measured: Measured, plan: Plan) -> None:
    if plan.device.type == "cuda" and (clocks := read_clocks(plan.device)):
        measured.clocks.append(clocks)


class Clocks(NamedTuple):
    """Of the multiprocessors and of the memory in MHz, degrees Celsius, watts; None for what the
    card does not tell."""

    sm_mhz: float | None
    memory_mhz: float | None
    celsius: float | None
    watts: float | None


def read_clocks(device: torch.device) -> Clocks | None:
    """The clocks of an NVIDIA GPU now, from nvidia-smi; None where it is not there or fails."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    which = ["--id=GPU-" + str(uuid)] if uuid else []
    command = ["nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits", *which]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.splitlines()
    return parse_clocks(lines[0]) if lines else None


def parse_clocks(line: str) -> Clocks | None:
    """The clocks in a line of nvidia-smi's table; None for another number of columns."""
    cells = line.split(",")
    return Clocks(*map(_number, cells)) if len(cells) == len(Clocks._fields) else None


def span(clocks: Sequence[Clocks]) -> str:
    """The least and the largest of each in words; '' where there is none."""
    parts = []
    for name, unit in zip(Clocks._fields, ("MHz SM", "MHz memory", "°C", "W"), strict=True):
        values = [value for each in clocks if (value := getattr(each, name)) is not None]
        if values:
            parts.append(f"{min(values):.0f} to {max(values):.0f} {unit}")
    return ", ".join(parts)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # [N/A]
        return None
