"""The time of LoopedClassifier for many queries with one context, at the paper's size.

    python -m benchmarks.estimators queries=1000

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
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
import torch

from reloop.benchmarks.common import run_benchmark, write_report
from reloop.benchmarks.settings import EstimatorSettings
from reloop.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig
from reloop.openml_eval import LoopedClassifier
from reloop.training import train

_T = TypeVar("_T")


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_benchmark("estimators", EstimatorSettings, words, __doc__, _run)


def _run(settings: EstimatorSettings) -> None:
    """Time predict_proba, print seconds, write."""
    random = np.random.default_rng(0)
    context = random.normal(size=(settings.context, settings.dims))
    labels = np.arange(settings.context) % 2
    queries = random.normal(size=(settings.queries, settings.dims))
    with TemporaryDirectory() as folder:
        run = train(_config(settings, folder))
        model = LoopedClassifier(run.path, device="cpu").fit(context, labels)
    batch_seconds, probabilities = _timed(lambda: model.predict_proba(queries), settings.repeats)
    subset = queries[: min(20, len(queries))]
    single_seconds, single_probabilities = _timed(
        lambda: np.concatenate([model.predict_proba(query[None]) for query in subset]), 1
    )
    difference = float(np.abs(probabilities[: len(subset)] - single_probabilities).max())
    batch_median, per_query = statistics.median(batch_seconds), single_seconds[0] / len(subset)
    print(
        f"{settings.queries} queries, {settings.context} rows of context, width {settings.width}, "
        f"{settings.loops} loops, {torch.get_num_threads()} threads"
    )
    print(f"together  {batch_median:.3f} s (median of {settings.repeats})")
    print(f"alone     {per_query * settings.queries:.3f} s (from {len(subset)} of them)")
    print(f"largest difference of a probability  {difference:.1e}")
    results = {"together_s": batch_seconds, "alone_s_each": per_query, "difference": difference}
    sizes = {name: value for name, value in asdict(settings).items() if name != "json"}
    write_report(settings.json, torch.device("cpu"), {"size": sizes, **results})


def _config(settings: EstimatorSettings, folder: str) -> Config:
    """An untrained looped classifier."""
    return Config(
        task=TaskConfig("halfspaces", settings.dims, settings.context + 1),
        model=ModelConfig(n_embd=settings.width, n_positions=settings.context + 1),
        loops=LoopsConfig(settings.loops, min(15, settings.loops)),
        training=TrainingConfig(steps=0),
        device="cpu",
        folder=folder,
    )


def _timed(call: Callable[[], _T], repeats: int) -> tuple[list[float], _T]:
    """The seconds of each call, and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return seconds, result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
