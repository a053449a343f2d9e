"""The speed of sampling prompts, beside the reference repository's samplers (with a checkout).

    python -m benchmarks.samplers reference=../looped_transformer

The checkout (github.com/Leiay/looped_transformer) is imported in place, never copied. Both sides
sample in turn in one process; ratios are of pairs.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from looplab.benchmarks.common import paired_ratio, run_benchmark, write_report
from looplab.benchmarks.reference import REFERENCE_TASKS, load_reference
from looplab.benchmarks.settings import SamplerSettings
from looplab.tasks import make_task


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("samplers", SamplerSettings, words, __doc__, _run)


def _run(settings: SamplerSettings) -> None:
    """Time the samplers, print a table, write."""
    reference = None
    if settings.reference:
        reference = load_reference(Path(settings.reference), "tasks")["tasks"]
    size = (settings.batch, settings.points, settings.dims)
    print(f"B = {size[0]}, n = {size[1]}, d = {size[2]}, {torch.get_num_threads()} threads")
    print(f"{'task':16}{'ours, ms':>12}{'reference, ms':>16}{'ratio (quartiles)':>24}")
    results = {}
    for name, reference_name in REFERENCE_TASKS.items():
        ours = [_seconds(_ours(name, *size))]  # the first call of each side is a warm-up
        theirs = [_seconds(_theirs(reference, reference_name, *size))] if reference else []
        for _ in range(settings.pairs):
            ours.append(_seconds(_ours(name, *size)))
            if reference:
                theirs.append(_seconds(_theirs(reference, reference_name, *size)))
        print(_row(name, ours[1:], theirs[1:]), flush=True)
        results[name] = {"ours_s": ours[1:], "reference_s": theirs[1:]}
    sizes = dict(zip(("batch", "points", "dims"), size, strict=True))
    write_report(settings.json, torch.device("cpu"), {"size": sizes, "seconds": results})


def _ours(name: str, batch: int, points: int, dims: int) -> Callable[[], object]:
    task, generator = make_task(name, dims), torch.Generator().manual_seed(0)
    return lambda: task.sample(generator, batch, points)


def _theirs(
    reference: ModuleType, name: str, batch: int, points: int, dims: int
) -> Callable[[], object]:
    sparsity = {"sparse_linear_regression": 3, "relu_2nn_regression": 100}.get(name)
    sampler = reference.get_task_sampler(name, batch, points, dims, dims, "cpu", sparsity)
    return lambda: sampler()


def _seconds(draw: Callable[[], object], repeats: int = 5) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        draw()
    return (time.perf_counter() - start) / repeats


def _row(name: str, ours: list[float], theirs: list[float]) -> str:
    row = f"{name:16}{1e3 * statistics.median(ours):12.3f}"
    if not theirs:
        return row
    ratio = paired_ratio(theirs, ours)
    return f"{row}{1e3 * statistics.median(theirs):16.3f}{ratio:>24}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
