"""The speed of sampling prompts, beside the reference repository's samplers (with a checkout).

    python -m benchmarks.samplers reference=../looped_transformer

The checkout (github.com/Leiay/looped_transformer) is imported in place, never copied. Both sides
sample in turn in one process; ratios are of pairs.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch

from looplab.benchmarks.common import paired_ratio, run_benchmark, write_report
from looplab.benchmarks.reference import REFERENCE_TASKS, load_reference
from looplab.benchmarks.settings import SamplerSettings
from looplab.evaluation.tables import Table, document
from looplab.tasks import make_task

B, n, d = 64, 101, 20  # prompts at once, pairs in each, dimensions of x
_REPEATS = 5  # draws of a measurement
_SPARSITY = {"sparse_linear": 3, "relu_network": 100}  # as the reference's samplers take it


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("samplers", SamplerSettings, words, __doc__, _run)


def _run(settings: SamplerSettings) -> None:
    """Time the samplers, print a table, write."""
    modules = load_reference(Path(settings.reference), "tasks") if settings.reference else {}
    results, lines = {}, []
    for name, theirs in REFERENCE_TASKS.items():
        task, generator = make_task(name, d), torch.Generator().manual_seed(0)
        draws: dict[str, Callable[[], object]] = {"ours": partial(task.sample, generator, B, n)}
        for module in modules.values():
            sampler = module.get_task_sampler(theirs, B, n, d, d, "cpu", _SPARSITY.get(name))
            draws["reference"] = sampler
        turns = [[_seconds(draw) for draw in draws.values()] for _ in range(settings.pairs + 1)]
        seconds = dict(zip(draws, zip(*turns[1:], strict=True), strict=True))  # one to warm up
        lines.append([name, *(f"{1e3 * median(values):.3f}" for values in seconds.values())])
        if modules:
            lines[-1].append(str(paired_ratio(seconds["reference"], seconds["ours"])))
        results[name] = seconds
    head = ["task", "ours, ms", *(["reference, ms", "ratio (quartiles)"] if modules else [])]
    size = f"B = {B}, n = {n}, d = {d}, {torch.get_num_threads()} threads"
    print(document([size, Table(head, lines)]))
    write_report(settings.json, torch.device("cpu"), {"seconds": results})


def _seconds(draw: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(_REPEATS):
        draw()
    return (time.perf_counter() - start) / _REPEATS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
