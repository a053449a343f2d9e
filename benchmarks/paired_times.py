"""Paired times: in each turn every variant makes one measurement, one after another, in a process
of its own. A kernel that faults takes its process's GPU along: here it is that of one variant.

Ratios of one turn's measurements are paired: a slow phase of the machine slows both sides.
"""

from __future__ import annotations

import math
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.training.jobs import describe_exit, end_with_parent

from .common import reason
from .settings import StepSettings
from .variants import Step, Variant

# Seconds a step: on the clock, and of this process's threads in user and in kernel code, and both.
Times = dict[str, float]
PARTS = ("wall", "user", "system", "cpu")
CLOCKS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"  # MHz, MHz, degrees Celsius, watts
_LEAST = 0.2  # seconds of one measurement: it repeats a shorter step
_ANSWER = 10.0  # seconds for nvidia-smi
_END = 5.0  # seconds for a process to end before it is killed


def measure(step: Step, repeats: int, device: torch.device) -> Times:
    """Time `repeats` steps, waiting for the device."""
    _wait(device)
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    _wait(device)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    user = after.ru_utime - before.ru_utime
    system = after.ru_stime - before.ru_stime
    seconds = {"wall": wall, "user": user, "system": system, "cpu": user + system}
    return {clock: total / repeats for clock, total in seconds.items()}


def warm_up(step: Step, steps: int, device: torch.device) -> int:
    """Make `steps` steps or more; returns the number of steps in a measurement."""
    # The first ones compile and allocate.
    seconds = [measure(step, 1, device)["wall"] for _ in range(steps)][-1]
    if seconds >= _LEAST:
        return 1
    # The first steps are slower: time the next ones.
    steady = measure(step, math.ceil(_LEAST / seconds), device)["wall"]
    return math.ceil(_LEAST / steady)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def read_clocks(device: torch.device) -> str:
    """`CLOCKS` of an NVIDIA GPU now, as nvidia-smi writes them; empty where it tells none."""
    which = f"--id=GPU-{torch.cuda.get_device_properties(device).uuid}"
    command = ["nvidia-smi", f"--query-gpu={CLOCKS}", "--format=csv,noheader", which]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_ANSWER)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0]


class Contender:
    """A variant in its process, and its measurements: one of `times` a turn, each of `repeats`
    steps; on a GPU also `facts`, the peak of memory in bytes since the process began.

    Every answer of the process may take `settings.limit` seconds; RunError is raised for one that
    does not come, for an error there and for a process that ends. `end` is called in any case.
    """

    def __init__(
        self, variant: Variant, config: Config, device: torch.device, settings: StepSettings
    ) -> None:
        self.variant = variant
        self._limit = settings.limit
        self.repeats = 0
        self.times = list[Times]()
        self.facts: dict[str, int] = {}
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        plan = (variant, config, device, torch.get_num_threads(), other)
        self.process = context.Process(target=_serve, args=plan)
        self.process.start()
        other.close()

    def end(self) -> None:
        """End the process, whatever it does."""
        self._pipe.close()
        # Asked to end first, then made to.
        for stop in (self.process.terminate, self.process.kill):
            stop()
            self.process.join(_END)

    def answer(self, question: str = "") -> Any:
        """`repeats` and `facts`, once the variant is built and warm; to "measure" the times."""
        try:
            if question:
                self._pipe.send(question)
            # None waits without end.
            if not self._pipe.poll(self._limit):
                raise RunError(f"gave no answer within {self._limit:g} s")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self.process.join(_END)
            code = self.process.exitcode
            how = "does not answer" if code is None else describe_exit(code)
            raise RunError(f"its process {how}") from None
        if isinstance(answer, RunError):
            raise answer
        return answer


class PairedTimes:
    """All that has been measured of a configuration so far: the variants that have not failed, the
    errors of the others, and on a GPU its clocks before the first turn and after each."""

    def __init__(self, config: Config, device: torch.device, settings: StepSettings) -> None:
        self.config = config
        self.device = device
        self.settings = settings
        self.contenders: list[Contender] = []
        self.failures: dict[str, str] = {}
        self.clocks: list[str] = []
        self.profiles: dict[str, object] = {}  # by variant, where they are asked for
        self.turns = 0

    def whole(self) -> list[Contender]:
        """The variants with a measurement of every turn, once there is one."""
        return [
            contender for contender in self.contenders if len(contender.times) == self.turns > 0
        ]

    def take(self, variants: Sequence[Variant], save: Callable[[], None]) -> None:
        """Build all variants and let them take `settings.pairs` turns; `save` is called when all
        are built and after each turn. Whatever ends it, no process is left."""
        started: list[Contender] = []
        try:
            # All at once on a GPU, which their imports and compilers leave idle most of the time.
            at_once = len(variants) if self.device.type == "cuda" else 1
            for first in range(0, len(variants), at_once):
                for variant in variants[first : first + at_once]:
                    started.append(Contender(variant, self.config, self.device, self.settings))
                for built in started[first:]:
                    with self._recording(built.variant):
                        built.repeats, built.facts = built.answer()
                        self.contenders.append(built)
            self._done(save)
            for _ in range(self.settings.pairs):
                turn: list[tuple[Contender, Times]] = []
                for contender in self.contenders:
                    if contender.variant.name not in self.failures:
                        with self._recording(contender.variant):
                            turn.append((contender, contender.answer("measure")))
                for contender, times in turn:  # only whole turns count
                    contender.times.append(times)
                self.turns += 1
                self._done(save)
        finally:
            for contender in started:
                contender.end()

    @contextmanager
    def _recording(self, variant: Variant) -> Iterator[None]:
        """Record that this variant failed, so that the others continue."""
        try:
            yield
        except RunError as failure:
            self.failures[variant.name] = str(failure)

    def _done(self, save: Callable[[], None]) -> None:
        if self.device.type == "cuda" and (clocks := read_clocks(self.device)):
            self.clocks.append(clocks)
        save()


def _serve(
    variant: Variant, config: Config, device: torch.device, threads: int, pipe: Connection[Any, Any]
) -> None:
    """In the process: build, warm up, then measure whenever it is asked."""
    end_with_parent()
    torch.set_num_threads(threads)
    on_gpu = device.type == "cuda"
    try:
        step = variant.build(config, device)
        repeats = warm_up(step, 5 if on_gpu else 1, device)
        pipe.send((repeats, {"peak_bytes": torch.cuda.max_memory_allocated()} if on_gpu else {}))
        while pipe.recv():
            pipe.send(measure(step, repeats, device))
    except (EOFError, BrokenPipeError):  # nobody asks any more
        return
    except Exception as error:  # any exception of a compiler or a card
        pipe.send(RunError(reason(error)))
