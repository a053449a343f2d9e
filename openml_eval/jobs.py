"""The two kinds of jobs in leave-one-out: training a run and scoring it; scoring the solvers on a
table. Both resume after an interruption and reuse stored results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.schema import Config
from looplab.evaluation.kept import Cache
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.remarks import remarks
from looplab.training import Run, train
from looplab.training.assemble import trained_loops
from looplab.training.device import place_exactly
from looplab.training.run_folder.run import RunFolder, run_folder
from looplab.training.run_folder.sources import EVALUATED, sources_of

from .scoring import (
    ABSENT,
    FIRST_SEED,
    SOLVERS,
    ContextSplit,
    Hits,
    TrainedModel,
    model_hits,
    reference_accuracies,
    solver_hits,
    split_contexts,
)
from .tables.store import read_table

_GROUP_CHUNK = 8  # of whose hits each file of a cache holds some


@dataclass(frozen=True)
class TableSummary:
    """A stored table without its rows; `remarks` are notes that its results must be read with."""

    name: str
    openml_id: int | None
    rows: int
    features: int
    counts: tuple[int, int]
    sha256: str
    remarks: tuple[str, ...]

    @property
    def label(self) -> str:
        """Its id, if it has one, and its name."""
        return f"{self.openml_id} {self.name}" if self.openml_id else self.name

    @property
    def majority(self) -> float:
        """The share of its larger class."""
        return max(self.counts) / self.rows


@dataclass(frozen=True)
class Scoring:
    """How a table is scored: with `size` rows in each of `contexts` contexts, for evaluation seeds
    0 to `seeds` - 1; `folder` is where tables are stored."""

    folder: Path
    size: int
    contexts: int
    seeds: int

    def hits(
        self,
        cache: Cache,
        name: str,
        content: Mapping[str, object],
        table: TableSummary,
        seed: int,
        score: Callable[[ContextSplit, slice], Hits],
    ) -> Hits:
        """Hits of one evaluation seed, from the cache or by `score`, group by group; `content` is
        what they depend on beside table and scoring."""
        split = split_contexts(table.rows, self.size, self.contexts, seed)
        full_content = {
            **content,
            "table": table.sha256,
            "size": self.size,
            "contexts": self.contexts,
            "seed": seed,
            "sources": sources_of(*EVALUATED, "openml_eval"),
        }
        arrays = cache.rows(
            name,
            full_content,
            len(split.groups),
            _GROUP_CHUNK,
            lambda groups: {"hits": score(split, groups)},
        )
        return arrays["hits"]


@dataclass(frozen=True)
class RunScores:
    """A trained run and its `scores`: hits [evaluation seeds, groups, group size, 2] or, under the
    reference's protocol, accuracies [evaluation seeds, 2]; the last axis is the polarity."""

    path: str
    step: int
    seconds: float | None  # of training
    remarks: list[str]
    scores: NDArray[Any]

    @property
    def averaged(self) -> bool:
        """Whether the scores are accuracies."""
        return self.scores.ndim == 2


@dataclass(frozen=True)
class SolverScores:
    """Hits [evaluation seeds, groups, group size] by solver, and the seconds that they took."""

    hits: dict[str, Hits]
    seconds: float


@dataclass(frozen=True)
class RunJob:
    """Train a run, unless it is finished, and score it on its held-out table."""

    config: Config
    table: TableSummary
    scoring: Scoring

    @property
    def name(self) -> str:
        """Table, model and seed, for messages."""
        return f"{self.table.label}, {self.config.model.family}, seed {self.config.seed}"

    @property
    def path(self) -> Path:
        """The run's folder."""
        return run_folder(self.config).path

    def __call__(self) -> RunScores:
        """Raises as `train`, and HeldElsewhere if another process scores the run."""
        run = train(self.config)
        with RunFolder(run.path).lock():
            scores = self._score(run)
        seconds = RunFolder(run.path).status().get("seconds")
        return RunScores(str(run.path), run.step, seconds, remarks(run), scores)

    def describe(self, result: RunScores) -> str:
        """The accuracy and the training time."""
        scores = result.scores
        accuracy = scores[:, 0].mean() if result.averaged else _accuracy(scores)
        return f"accuracy {accuracy:.3f}, trained in {result.seconds or 0:.0f} s"

    def _score(self, run: Run) -> NDArray[Any]:
        table = read_table(self.scoring.folder, self.table.name)
        placement = place_exactly(self.config.device)
        classifier = TrainedModel(
            placement.prepare(run.model).eval(), run.task, trained_loops(run.config)
        )
        if self.config.task.settings["protocol"] == "reference":
            points = self.scoring.size + 1
            seeds = range(FIRST_SEED, FIRST_SEED + self.scoring.seeds)
            return np.array([reference_accuracies(classifier, table, points, s) for s in seeds])
        content = {
            "weights": weights_digest(run.model),
            "labels": classifier.task.labels,
            "loops": classifier.loops,
        }
        cache, score = Cache(run.path / "cache"), partial(model_hits, classifier, table)
        hits = partial(self.scoring.hits, cache, "tables", content, self.table, score=score)
        return np.stack([hits(seed) for seed in range(self.scoring.seeds)])


@dataclass(frozen=True)
class SolverJob:
    """Score every solver on a table, on the same queries and contexts as the models."""

    table: TableSummary
    scoring: Scoring
    cache: Path

    @property
    def name(self) -> str:
        """Table and solvers, for messages."""
        return f"{self.table.label}, {', '.join(SOLVERS)}"

    def __call__(self) -> SolverScores:
        """Raises HeldElsewhere if another process scores the solvers."""
        start = time.monotonic()
        # Locked, so that no other process computes the same.
        lock_folder = self.cache / self.table.sha256[:12]
        lock_folder.mkdir(parents=True, exist_ok=True)
        table = read_table(self.scoring.folder, self.table.name)
        hits = {}
        with RunFolder(lock_folder).lock():
            for name, description in SOLVERS.items():
                content, score = {"solver": description}, partial(solver_hits, name, table)
                by_seed = partial(
                    self.scoring.hits, Cache(self.cache), name, content, self.table, score=score
                )
                hits[name] = np.stack([by_seed(seed) for seed in range(self.scoring.seeds)])
        return SolverScores(hits, time.monotonic() - start)

    def describe(self, result: SolverScores) -> str:
        """The accuracies and the time."""
        accuracies = (f"{_accuracy(hits):.3f}" for hits in result.hits.values())
        return f"accuracies {', '.join(accuracies)}, found in {result.seconds:.0f} s"


def _accuracy(hits: Hits) -> float:
    return float(hits[hits != ABSENT].mean())
