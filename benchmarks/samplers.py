"""How fast prompts are drawn, beside the reference repository's samplers if a checkout is given.

    python -m benchmarks.samplers --reference ../looped_transformer

The checkout (github.com/Leiay/looped_transformer) is imported where it lies, never copied. Both
sides draw in turn in one process; the ratio is that of each pair.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tasks import make_task

# Our tasks, and what the reference calls them.
_NAMES = {
    "linear": "linear_regression",
    "sparse_linear": "sparse_linear_regression",
    "decision_tree": "decision_tree",
    "relu_network": "relu_2nn_regression",
}


def main(words: list[str]) -> int:
    """Time the samplers and print a table; the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.samplers", description=__doc__)
    parser.add_argument("--reference", type=Path, metavar="DIR", help="a checkout of the reference")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dims", type=int, default=20)
    parser.add_argument("--points", type=int, default=101)
    parser.add_argument("--pairs", type=int, default=41, help="measurements of each side")
    options = parser.parse_args(words)
    if options.pairs < 2:
        parser.error(f"--pairs must be at least 2, got {options.pairs}")
    reference = _load_reference(options.reference) if options.reference else None
    if options.reference and reference is None:
        parser.error(f"{options.reference} holds no scripts/tasks.py")
    size = (options.batch, options.points, options.dims)
    print(f"B = {size[0]}, n = {size[1]}, d = {size[2]}, {torch.get_num_threads()} threads")
    print(f"{'task':16}{'ours, ms':>12}{'reference, ms':>16}{'ratio (quartiles)':>24}")
    for name, other in _NAMES.items():
        ours = [_seconds(_ours(name, *size))]  # the first call of each side is a warm-up
        theirs = [_seconds(_theirs(reference, other, *size))] if reference else []
        for _ in range(options.pairs):
            ours.append(_seconds(_ours(name, *size)))
            if reference:
                theirs.append(_seconds(_theirs(reference, other, *size)))
        print(_row(name, ours[1:], theirs[1:]), flush=True)
    return 0


def _ours(name: str, batch: int, points: int, dims: int) -> Callable[[], object]:
    task, generator = make_task(name, dims), torch.Generator().manual_seed(0)
    return lambda: task.sample(generator, batch, points)


def _theirs(reference: Any, name: str, batch: int, points: int, dims: int) -> Callable[[], object]:
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
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    spread = f"{middle:.1f} ({low:.1f} to {high:.1f})"
    return f"{row}{1e3 * statistics.median(theirs):16.3f}{spread:>24}"


def _load_reference(checkout: Path) -> Any:
    path = checkout / "scripts" / "tasks.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("reference_tasks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
