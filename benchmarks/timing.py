"""Time spent on steps, and on a GPU the kernels and the memory of one."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]
_LEAST = 0.2  # seconds of one measurement, so that a short step is made several times


class Times(NamedTuple):
    """Seconds a step: on the clock, and of processor time in this process's threads, in its own
    code and in the kernel's."""

    wall: float
    user: float
    system: float

    @property
    def cpu(self) -> float:
        """Both kinds of processor time together."""
        return self.user + self.system


def measure(step: Step, repeats: int, device: torch.device) -> Times:
    """Make `repeats` steps and wait for the device."""
    _wait(device)
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    for _ in range(repeats):
        step()
    _wait(device)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    spent = (wall, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)
    return Times(*(seconds / repeats for seconds in spent))


def warm_up(step: Step, steps: int, device: torch.device) -> int:
    """Make `steps` steps, and as many more as fill a measurement: how many those are."""
    last = [measure(step, 1, device).wall for _ in range(steps)][-1]
    if last >= _LEAST:
        return 1
    # The first steps are slower than the others: count with those that follow.
    settled = measure(step, math.ceil(_LEAST / last), device).wall
    return math.ceil(_LEAST / settled)


def cuda_kernels(step: Step, steps: int = 1) -> dict[str, tuple[int, float]]:
    """Each kernel's launches and microseconds in `steps` steps, copies and fills included."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    found: dict[str, tuple[int, float]] = {}
    for event in seen.events() or []:
        if event.device_type.name == "CUDA" and not event.is_user_annotation:
            launches, spent = found.get(event.name, (0, 0.0))
            found[event.name] = launches + 1, spent + event.time_range.elapsed_us()
    return found


def launches(step: Step) -> dict[str, int]:
    """How many kernels a step starts, and how many copies and fills beside them; nothing where the
    machine does not let the profiler see them."""
    counts = {name: count for name, (count, _) in cuda_kernels(step).items()}
    if not counts:
        return {}
    copies = sum(count for name, count in counts.items() if name.startswith(("Memcpy", "Memset")))
    return {"kernels": sum(counts.values()) - copies, "copies_and_fills": copies}


def peak_bytes(step: Step, before: int, *, captured: bool) -> int:
    """The most memory allocated in a step, beyond the `before` that was when its variant was about
    to be built. A captured step allocates nothing when it is replayed: there the peak is that since
    it was built (reset then), the warm-up and the capture with it."""
    if not captured:
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
