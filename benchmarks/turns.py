"""Turns: in each, every variant makes one measurement, one after another, in a process of its own.
A kernel that faults takes its process's GPU along: here it is that of one variant.

Ratios of one turn's measurements are paired: a slow phase of the machine slows both sides.
"""

from __future__ import annotations

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
from .timing import Times, launches, measure, peak_bytes, read_clocks, warm_up
from .variants import Variant

_END = 5.0  # seconds for a process to end before it is killed


class Contender:
    """A variant in its process, and its measurements: one of `times` a turn, each of `repeats`
    steps; on a GPU also `facts`, the peak of memory in bytes and, if they can be seen, the
    launches.

    Every answer of the process may take `settings.limit` seconds; RunError is raised for one that
    does not come, for an error there and for a process that ends. `end` is called in any case.
    """

    def __init__(
        self, variant: Variant, config: Config, device: torch.device, settings: StepSettings
    ) -> None:
        self.variant, self._limit = variant, settings.limit
        self.repeats, self.times = 0, list[Times]()
        self.facts: dict[str, int] = {}
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        warmup = 5 if device.type == "cuda" else 1
        plan = (variant, config, device, warmup, settings.least, torch.get_num_threads())
        self.process = context.Process(target=_serve, args=(*plan, other))
        self.process.start()
        other.close()

    def ready(self) -> None:
        """Wait until the variant is built and warm."""
        self.repeats, self.facts = self._answer()

    def measure(self) -> Times:
        """Measure once."""
        return self._ask("measure")

    def count_launches(self) -> None:
        """Add the launches of a step to `facts`; later steps may be slower, as it was profiled."""
        self.facts |= self._ask("launches")

    def seconds(self, basis: str) -> list[float]:
        """Each measurement's seconds a step of one run: of "wall", "user", "system" or, the sum of
        the last two, "cpu"."""
        parts = ("user", "system") if basis == "cpu" else (basis,)
        runs = self.variant.runs
        return [sum(getattr(times, part) for part in parts) / runs for times in self.times]

    def end(self) -> None:
        """End the process, whatever it does."""
        self._pipe.close()
        for stop in (self.process.terminate, self.process.kill):
            stop()
            self.process.join(_END)

    def _ask(self, question: str) -> Any:
        try:
            self._pipe.send(question)
        except OSError:
            raise self._lost() from None
        return self._answer()

    def _answer(self) -> Any:
        try:
            if not self._pipe.poll(self._limit):
                raise RunError(f"gave no answer within {self._limit:g} s")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if isinstance(answer, RunError):
            raise answer
        return answer

    def _lost(self) -> RunError:
        self.process.join(_END)
        code = self.process.exitcode
        return RunError(f"its process {'does not answer' if code is None else describe_exit(code)}")


class Turns:
    """What has been measured of a configuration so far: the variants that have not failed, the
    errors of the others, and on a GPU its clocks before the first turn and after each."""

    def __init__(self, config: Config, device: torch.device, settings: StepSettings) -> None:
        self.config, self.device, self.settings = config, device, settings
        self.contenders: list[Contender] = []
        self.failures: dict[str, str] = {}
        self.clocks: list[str] = []
        self.turns = 0

    def whole(self) -> list[Contender]:
        """The variants with a measurement of every turn, once there is one."""
        return [each for each in self.contenders if len(each.times) == self.turns > 0]

    def take(self, variants: Sequence[Variant], save: Callable[[], None]) -> None:
        """Build all variants and let them take `settings.pairs` turns; `save` is called when all
        are built, after each turn, and at the end. Whatever ends it, no process is left."""
        started: list[Contender] = []
        try:
            for variant in variants:
                with self._recording(variant):
                    started.append(Contender(variant, self.config, self.device, self.settings))
                    started[-1].ready()
                    self.contenders.append(started[-1])
            save()
            self._note_clocks()
            for _ in range(self.settings.pairs):
                turn: list[tuple[Contender, Times]] = []
                for contender in self.contenders:
                    if contender.variant.name not in self.failures:
                        with self._recording(contender.variant):
                            turn.append((contender, contender.measure()))
                for contender, times in turn:  # only whole turns count
                    contender.times.append(times)
                self.turns += 1
                self._note_clocks()
                save()
            if self.device.type == "cuda":  # at the end: a profiled step may launch slowly later
                for contender in self.whole():
                    with self._recording(contender.variant):
                        contender.count_launches()
                save()
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

    def _note_clocks(self) -> None:
        if self.device.type == "cuda" and (clocks := read_clocks(self.device)):
            self.clocks.append(clocks)


def _serve(
    variant: Variant,
    config: Config,
    device: torch.device,
    warmup: int,
    least: float,
    threads: int,
    pipe: Connection[Any, Any],
) -> None:
    """In the process: build, warm up, then answer each question."""
    end_with_parent()
    torch.set_num_threads(threads)
    try:
        step = variant.build(config, device)
        repeats = warm_up(step, warmup, device, least)
        on_gpu = device.type == "cuda"
        peak = {"peak_bytes": peak_bytes(step, captured=variant.capture)} if on_gpu else {}
        pipe.send((repeats, peak))
        answers: dict[str, Callable[[], object]] = {
            "measure": lambda: measure(step, repeats, device),
            "launches": lambda: launches(step, device),
        }
        while True:
            pipe.send(answers[pipe.recv()]())
    except (EOFError, BrokenPipeError):  # nobody asks any more
        return
    except Exception as error:  # any exception of a compiler or a card
        pipe.send(RunError(reason(error)))
