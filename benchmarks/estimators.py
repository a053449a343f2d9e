"""The time of LoopedClassifier for many queries with one context, at the paper's size.

    python -m benchmarks.estimators --queries 1000

The model is untrained: its predictions do not matter for the time. The same queries are also timed
one by one.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from reloop.benchmarks.arguments import Parser, at_least
from reloop.benchmarks.common import write_report
from reloop.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig
from reloop.openml_eval import LoopedClassifier
from reloop.training import train


def main(words: list[str]) -> int:
    """Time predict_proba and print seconds; returns the exit code."""
    parser = Parser(prog="benchmarks.estimators", description=__doc__)
    parser.add_argument("--queries", type=at_least(1), default=1000)
    parser.add_argument("--context", type=at_least(2), default=40, help="rows to answer from")
    parser.add_argument("--dims", type=at_least(1), default=20)
    parser.add_argument("--width", type=at_least(8), default=256, help="a multiple of 8")
    parser.add_argument("--loops", type=at_least(1), default=30)
    parser.add_argument("--repeats", type=at_least(1), default=5)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything measured")
    options = parser.parse_args(words)
    if options.width % 8:
        parser.error(f"--width must be a multiple of 8, got {options.width}")
    random = np.random.default_rng(0)
    context = random.normal(size=(options.context, options.dims))
    labels = np.arange(options.context) % 2
    queries = random.normal(size=(options.queries, options.dims))
    with TemporaryDirectory() as folder:
        run = train(_config(options, folder))
        model = LoopedClassifier(run.path, device="cpu").fit(context, labels)
    batch_seconds, probabilities = _timed(lambda: model.predict_proba(queries), options.repeats)
    subset = queries[: min(20, len(queries))]
    single_seconds, single_probabilities = _timed(
        lambda: np.concatenate([model.predict_proba(query[None]) for query in subset]), 1
    )
    difference = float(np.abs(probabilities[: len(subset)] - single_probabilities).max())
    batch_median, per_query = statistics.median(batch_seconds), single_seconds[0] / len(subset)
    print(
        f"{options.queries} queries, {options.context} rows of context, width {options.width}, "
        f"{options.loops} loops, {torch.get_num_threads()} threads"
    )
    print(f"together  {batch_median:.3f} s (median of {options.repeats})")
    print(f"alone     {per_query * options.queries:.3f} s (from {len(subset)} of them)")
    print(f"largest difference of a probability  {difference:.1e}")
    if options.json:
        results = {"together_s": batch_seconds, "alone_s_each": per_query, "difference": difference}
        sizes = {name: value for name, value in vars(options).items() if name != "json"}
        write_report(options.json, torch.device("cpu"), {"size": sizes, **results})
    return 0


def _config(options: Any, folder: str) -> Config:
    """An untrained looped classifier."""
    return Config(
        task=TaskConfig("halfspaces", options.dims, options.context + 1),
        model=ModelConfig(n_embd=options.width, n_positions=options.context + 1),
        loops=LoopsConfig(options.loops, min(15, options.loops)),
        training=TrainingConfig(steps=0),
        device="cpu",
        folder=folder,
    )


def _timed(call: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    seconds, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return seconds, result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
