"""A variant in a process of its own, which makes its steps when it is asked.

A kernel that faults takes its process's GPU along: here it is that of one variant.

worker = Worker(variant, plan, limit=60.0)
ready, times = worker.ready(), worker.measure()
worker.end()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch

from reloop.conf.schema import Config
from reloop.training.jobs import describe_exit, end_with_parent

from ..common import reason
from ..timing import Launches, Times, launches, measure, peak_bytes, warm_up
from ..variants import Variant

_END = 5.0  # seconds for a process to end before it is killed


@dataclass(frozen=True)
class Plan:
    """What is measured: the steps of a configuration on a device, after `warmup` of them; `least`
    seconds a measurement; so many threads."""

    config: Config
    device: torch.device
    warmup: int
    least: float
    threads: int


class Ready(NamedTuple):
    """The steps of one measurement, and on a GPU the peak of memory in bytes."""

    repeats: int
    peak: int | None


class VariantFailed(Exception):
    """A variant cannot be measured; the text says why, in a line."""


class Worker:
    """The process of one variant. Every answer may take `limit` seconds (None: any time);
    VariantFailed is raised for one that does not come, for an error there and for a process that
    ends. `end` is called in any case."""

    def __init__(self, variant: Variant, plan: Plan, limit: float | None) -> None:
        self._limit, self._is_busy = limit, True
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        try:
            self._process = context.Process(target=_serve, args=(variant, plan, other))
            self._process.start()
        except OSError as error:
            raise VariantFailed(f"its process could not be started ({error})") from None
        finally:
            other.close()

    def ready(self) -> Ready:
        """Wait until the variant is built and warm."""
        return self._answer()

    def measure(self) -> Times:
        """Measure once."""
        return self._ask("measure")

    def launches(self) -> Launches | None:
        """The launches of a step; later ones may be slower, as they were profiled."""
        return self._ask("launches")

    def end(self) -> None:
        """End the process: one that waits for a question ends by itself, another by a signal."""
        self._pipe.close()
        if not self._is_busy:
            self._process.join(_END)
        for stop in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                stop()
                self._process.join(_END)

    def _ask(self, question: str) -> Any:
        self._is_busy = True
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
        self._is_busy = False
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
        pipe.send(Ready(repeats, peak_bytes(step, captured=variant.capture) if on_gpu else None))
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
