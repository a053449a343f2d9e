"""Turns: in each, every variant makes one measurement, one after another, in a process of its own.
A kernel that faults takes its process's GPU along: here it is that of one variant.

Ratios of one turn's measurements are paired: a slow phase of the machine slows both sides.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch

from looplab.conf.schema import Config
from looplab.training.jobs import describe_exit, end_with_parent

from ..common import device_name, reason
from ..cost import CARDS, CPU_SOURCE, card_floor, measured_floor, work_of
from ..timing import Launches, Times, launches, measure, peak_bytes, warm_up
from ..variants import Variant
from .contender import Basis, Contender, Floor

_FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"
_SECONDS = 10.0  # for nvidia-smi to answer
_END = 5.0  # seconds for a process to end before it is killed


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
        ours = [each for each in measured.contenders if each.variant.side == "ours"]
        on_cpu = plan.device.type == "cpu"  # where the products are timed in each turn
        floors = {each.variant.precision: list[float]() for each in ours if on_cpu}
        _note_clocks(measured, plan)
        for _ in range(pairs):
            for precision, seconds in floors.items():
                seconds.append(measured_floor(work_of(plan.config), precision))
            turn: list[tuple[Contender, Times]] = []
            for contender in measured.rows():
                with measured.recording(contender.variant):
                    turn.append((contender, workers[contender.variant.name].measure()))
            for contender, times in turn:  # only whole turns count
                contender.times.append(times)
            measured.turns += 1
            _note_clocks(measured, plan)
            for contender in ours:
                if on_cpu:
                    median = statistics.median(floors[contender.variant.precision])
                    contender.floor = Floor(median, CPU_SOURCE, measured.basis)
            save()
        if plan.device.type == "cuda":  # at the end: a profiled step may launch more slowly later
            for contender in measured.rows():
                with measured.recording(contender.variant):
                    contender.launches = workers[contender.variant.name].launches()
            save()


def _card_floor(variant: Variant, plan: Plan) -> Floor | None:
    if plan.device.type != "cuda" or not (card := CARDS.get(device_name(plan.device))):
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


@dataclass(frozen=True)
class Plan:
    """What is measured: the steps of a configuration on a device, after `warmup` of them; `least`
    seconds a measurement; so many threads."""

    config: Config
    device: torch.device
    warmup: int
    least: float
    threads: int


class VariantFailed(Exception):
    """A variant cannot be measured; the text says why, in a line."""


class Worker:
    """The process of one variant. Every answer may take `limit` seconds (None: any time);
    VariantFailed is raised for one that does not come, for an error there and for a process that
    ends. `end` is called in any case."""

    def __init__(self, variant: Variant, plan: Plan, limit: float | None) -> None:
        self._limit = limit
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(variant, plan, other))
        self._process.start()
        other.close()

    def ready(self) -> tuple[int, int | None]:
        """Wait until the variant is built and warm; the steps of one measurement, and on a GPU the
        peak of memory in bytes."""
        return self._answer()

    def measure(self) -> Times:
        """Measure once."""
        return self._ask("measure")

    def launches(self) -> Launches | None:
        """The launches of a step; later ones may be slower, as they were profiled."""
        return self._ask("launches")

    def end(self) -> None:
        """End the process, whatever it does."""
        self._pipe.close()
        for stop in (self._process.terminate, self._process.kill):
            stop()
            self._process.join(_END)

    def _ask(self, question: str) -> Any:
        try:
            self._pipe.send(question)
        except OSError:
            raise self._lost() from None
        return self._answer()

    def _answer(self) -> Any:
        try:
            if not self._pipe.poll(self._limit):
                raise VariantFailed(f"gave no answer within {self._limit:g} s")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if isinstance(answer, VariantFailed):
            raise answer
        return answer

    def _lost(self) -> VariantFailed:
        self._process.join(_END)
        code = self._process.exitcode
        how = "does not answer" if code is None else describe_exit(code)
        return VariantFailed(f"its process {how}")


def _serve(variant: Variant, plan: Plan, pipe: Connection[Any, Any]) -> None:
    """In the process: build, warm up, then answer each question."""
    end_with_parent()
    torch.set_num_threads(plan.threads)
    try:
        step = variant.build(plan.config, plan.device)
        repeats = warm_up(step, plan.warmup, plan.device, plan.least)
        on_gpu = plan.device.type == "cuda"
        pipe.send((repeats, peak_bytes(step, captured=variant.capture) if on_gpu else None))
        answers: dict[str, Callable[[], object]] = {
            "measure": lambda: measure(step, repeats, plan.device),
            "launches": lambda: launches(step),
        }
        while True:
            pipe.send(answers[pipe.recv()]())
    except (EOFError, BrokenPipeError):  # nobody asks any more
        return
    except Exception as error:  # any exception of a compiler or a card
        pipe.send(VariantFailed(reason(error)))
