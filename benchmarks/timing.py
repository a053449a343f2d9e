"""The time of steps, and on a GPU the kernels, the memory and the clocks of one."""

from __future__ import annotations

import math
import resource
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]
Totals = dict[str, tuple[int, float]]  # calls and microseconds by name
LEAST = 0.2  # seconds of one measurement: it repeats a shorter step
CLOCKS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"  # MHz, MHz, degrees Celsius, watts
_ANSWER = 10.0  # seconds for nvidia-smi


class Times(NamedTuple):
    """Seconds per step: on the clock, and of processor time of this process's threads, in user and
    in kernel code."""

    wall: float
    user: float
    system: float


def measure(step: Step, repeats: int, device: torch.device) -> Times:
    """Time `repeats` steps, waiting for the device."""
    _wait(device)
    usage_before, start_time = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    for _ in range(repeats):
        step()
    _wait(device)
    wall, usage_after = time.perf_counter() - start_time, resource.getrusage(resource.RUSAGE_SELF)
    user = usage_after.ru_utime - usage_before.ru_utime
    system = usage_after.ru_stime - usage_before.ru_stime
    return Times(wall / repeats, user / repeats, system / repeats)


def warm_up(step: Step, steps: int, device: torch.device, least: float = LEAST) -> int:
    """Make `steps` steps or more; returns the number of steps in a measurement of `least`
    seconds."""
    seconds = [measure(step, 1, device).wall for _ in range(steps)][-1]
    if seconds >= least:
        return 1
    # The first steps are slower: time the next ones.
    steady_seconds = measure(step, math.ceil(least / seconds), device).wall
    return math.ceil(least / steady_seconds)


def operations(step: Step, steps: int, device: torch.device) -> Totals:
    """Calls and microseconds in `steps` steps: on a GPU of each kernel, copies and fills included;
    on a CPU of each operation without its children."""
    on_gpu = device.type == "cuda"
    activity = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiler:
        for _ in range(steps):
            step()
        _wait(device)
    if not on_gpu:
        return {row.key: (row.count, row.self_cpu_time_total) for row in profiler.key_averages()}
    totals: Totals = {}
    for event in profiler.events() or []:
        if event.device_type.name == "CUDA" and not event.is_user_annotation:
            count, microseconds = totals.get(event.name, (0, 0.0))
            totals[event.name] = count + 1, microseconds + event.time_range.elapsed_us()
    return totals


def launches(step: Step, device: torch.device) -> dict[str, int]:
    """How many `kernels` a step starts on a GPU, and how many `copies_and_fills` beside them;
    nothing if the machine does not let the profiler see them."""
    counts = {name: count for name, (count, _) in operations(step, 1, device).items()}
    if not counts:
        return {}
    copies = sum(count for name, count in counts.items() if name.startswith(("Memcpy", "Memset")))
    return {"kernels": sum(counts.values()) - copies, "copies_and_fills": copies}


def peak_bytes(step: Step, *, captured: bool) -> int:
    """The peak of memory that this process allocates in a step. The replay of a captured step
    allocates nothing: for it the peak is that since the process began, including warm-up and
    capture."""
    if not captured:
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def read_clocks(device: torch.device) -> str:
    """`CLOCKS` of an NVIDIA GPU now, as nvidia-smi writes them; empty where it tells none."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    which = ["--id=GPU-" + str(uuid)] if uuid else []
    command = ["nvidia-smi", f"--query-gpu={CLOCKS}", "--format=csv,noheader", *which]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_ANSWER)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
