"""The time of steps, and on a GPU the kernels and the memory of one."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]
Totals = dict[str, tuple[int, float]]  # calls and microseconds by name
LEAST = 0.2  # seconds of one measurement: it repeats a shorter step


class Times(NamedTuple):
    """Seconds per step: on the clock, and of processor time of this process's threads, in user and
    in kernel code."""

    wall: float
    user: float
    system: float

    @property
    def cpu(self) -> float:
        """The sum of both kinds of processor time."""
        return self.user + self.system


def measure(step: Step, repeats: int, device: torch.device) -> Times:
    """Time `repeats` steps, waiting for the device."""
    _wait(device)
    usage_before, start_time = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    for _ in range(repeats):
        step()
    _wait(device)
    wall, usage_after = time.perf_counter() - start_time, resource.getrusage(resource.RUSAGE_SELF)
    totals = (
        wall,
        usage_after.ru_utime - usage_before.ru_utime,
        usage_after.ru_stime - usage_before.ru_stime,
    )
    return Times(*(seconds / repeats for seconds in totals))


def warm_up(step: Step, steps: int, device: torch.device, least: float = LEAST) -> int:
    """Make `steps` steps or more; returns the number of steps in a measurement of `least`
    seconds."""
    seconds = [measure(step, 1, device).wall for _ in range(steps)][-1]
    if seconds >= least:
        return 1
    # The first steps are slower: time the next ones.
    steady_seconds = measure(step, math.ceil(least / seconds), device).wall
    return math.ceil(least / steady_seconds)


def cuda_kernels(step: Step, steps: int = 1) -> Totals:
    """Each kernel's launches and microseconds in `steps` steps, copies and fills included."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    totals: Totals = {}
    for event in profiler.events() or []:
        if event.device_type.name == "CUDA" and not event.is_user_annotation:
            count, microseconds = totals.get(event.name, (0, 0.0))
            totals[event.name] = count + 1, microseconds + event.time_range.elapsed_us()
    return totals


class Launches(NamedTuple):
    """Numbers of a step's launches."""

    kernels: int
    copies_and_fills: int


def launches(step: Step) -> Launches | None:
    """How many kernels a step starts, and how many copies and fills beside them; None if the
    machine does not let the profiler see them."""
    counts = {name: count for name, (count, _) in cuda_kernels(step).items()}
    if not counts:
        return None
    copies = sum(count for name, count in counts.items() if name.startswith(("Memcpy", "Memset")))
    return Launches(sum(counts.values()) - copies, copies)


def peak_bytes(step: Step, *, captured: bool) -> int:
    """The peak of memory that this process allocates in a step. The replay of a captured step
    allocates nothing: for it the peak is that since the process began, including warm-up and
    capture."""
    if not captured:
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
