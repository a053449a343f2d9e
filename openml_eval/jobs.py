"""The two kinds of work in leave-one-out: train a run and score it, and let solvers score a table.
Both go on where they were interrupted, and find what is done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reloop.conf.schema import Config
from reloop.evaluation.cache import Cache
from reloop.evaluation.measure import weights_digest
from reloop.evaluation.remarks import remarks
from reloop.training import Run, train
from reloop.training.assemble import trained_loops
from reloop.training.device import place_exactly
from reloop.training.run_folder.run import RunFolder, run_folder
from reloop.training.run_folder.sources import sources_of

from .context_split import split_contexts
from .reference_scoring import FIRST_SEED, reference_accuracies
from .scoring import ABSENT, Hits, TrainedModel, model_hits, solver_hits
from .solvers import SOLVERS
from .table_summary import TableSummary
from .tables.store import read_table
from .tables.table import Table

# The modules of this room that hits depend on.
_OURS = (
    "reloop.openml_eval.context",
    "reloop.openml_eval.context_split",
    "reloop.openml_eval.scoring",
)
_SOLVERS = "reloop.openml_eval.solvers"
_AT_ONCE = 8  # groups


@dataclass(frozen=True)
class Scoring:
    """How a table is asked about: `size` rows in each of `contexts` contexts, for evaluation seeds
    0, 1, … up to `seeds`; `folder` is where tables are kept."""

    folder: Path
    size: int
    contexts: int
    seeds: int

    def content(self, table: TableSummary, seed: int) -> dict[str, Any]:
        """What the numbers of one evaluation seed depend on, beside who answers."""
        return {
            "table": table.sha256,
            "size": self.size,
            "contexts": self.contexts,
            "seed": seed,
        }


@dataclass(frozen=True)
class RunJob:
    """Train as configured, unless that is done, and score the run on its held-out table."""

    config: Config
    table: TableSummary
    scoring: Scoring

    @property
    def name(self) -> str:
        """Table, model and seed, for a user."""
        return f"{self.table.label}, {self.config.model.family}, seed {self.config.seed}"

    @property
    def path(self) -> Path:
        """The run's folder."""
        return run_folder(self.config).path

    def __call__(self) -> dict[str, Any]:
        """`path`, `step`, `seconds` of training, `remarks` on the run, and `hits` [evaluation
        seeds, groups, most, 2] or, under the reference's protocol, `accuracies` [evaluation
        seeds, 2].

        Raises what `train` does, HeldElsewhere where another process scores the run.
        """
        run = train(self.config)
        with RunFolder(run.path).lock():
            found = self._score(run)
        seconds = RunFolder(run.path).status().get("seconds")
        return {
            "path": str(run.path),
            "step": run.step,
            "seconds": seconds,
            "remarks": remarks(run),
            **found,
        }

    def describe(self, result: dict[str, Any]) -> str:
        """The accuracy found, in a few words."""
        accuracy = (
            np.mean(result["accuracies"][:, 0])
            if "accuracies" in result
            else _share(result["hits"], result["hits"])
        )
        return f"accuracy {accuracy:.3f}, trained in {result['seconds'] or 0:.0f} s"

    def _score(self, run: Run) -> dict[str, Any]:
        table = read_table(self.scoring.folder, self.table.name)
        placement = place_exactly(self.config.device)
        trained = TrainedModel(
            placement.prepare(run.model).eval(), run.task, trained_loops(run.config)
        )
        if self.config.task.settings["protocol"] == "reference":
            points = self.scoring.size + 1
            seeds = range(FIRST_SEED, FIRST_SEED + self.scoring.seeds)
            found = [reference_accuracies(trained, table, points, seed) for seed in seeds]
            return {"accuracies": np.array(found)}
        cache = Cache(run.path / "cache")
        weights = weights_digest(run.model)
        return {
            "hits": np.stack(
                [
                    self._hits(cache, weights, trained, table, seed)
                    for seed in range(self.scoring.seeds)
                ]
            )
        }

    def _hits(
        self, cache: Cache, weights: str, trained: TrainedModel, table: Table, seed: int
    ) -> Hits:
        split = split_contexts(self.table.rows, self.scoring.size, self.scoring.contexts, seed)
        content = self.scoring.content(self.table, seed)
        content |= {"weights": weights, "labels": trained.task.labels, "loops": trained.loops}
        content["sources"] = sources_of("reloop.models.model", "reloop.tasks.tables", alone=_OURS)
        found = cache.rows(
            "tables",
            content,
            len(split.groups),
            _AT_ONCE,
            lambda groups: {"hits": model_hits(trained, table, split, groups)},
        )
        return found["hits"]


@dataclass(frozen=True)
class SolverJob:
    """Let every solver answer what the models of a table are asked."""

    table: TableSummary
    scoring: Scoring
    cache: Path

    @property
    def name(self) -> str:
        """For a user."""
        return f"{self.table.label}, {', '.join(SOLVERS)}"

    def __call__(self) -> dict[str, Any]:
        """Hits [evaluation seeds, groups, most] by solver; `seconds`. Raises HeldElsewhere where
        another process is at it."""
        began = time.monotonic()
        own = self.cache / self.table.sha256[:12]  # held, so that nobody else computes the same
        own.mkdir(parents=True, exist_ok=True)
        table = read_table(self.scoring.folder, self.table.name)
        seeds = range(self.scoring.seeds)
        with RunFolder(own).lock():
            hits = {name: np.stack([self._hits(name, table, s) for s in seeds]) for name in SOLVERS}
        return {"hits": hits, "seconds": time.monotonic() - began}

    def describe(self, result: dict[str, Any]) -> str:
        """The accuracies found, in a few words."""
        shares = (f"{_share(hits, hits):.3f}" for hits in result["hits"].values())
        return f"accuracies {', '.join(shares)}, found in {result['seconds']:.0f} s"

    def _hits(self, name: str, table: Table, seed: int) -> Hits:
        split = split_contexts(self.table.rows, self.scoring.size, self.scoring.contexts, seed)
        found = Cache(self.cache).rows(
            name,
            self.scoring.content(self.table, seed)
            | {"solver": SOLVERS[name], "sources": sources_of(alone=(*_OURS, _SOLVERS))},
            len(split.groups),
            _AT_ONCE,
            lambda groups: {"hits": solver_hits(name, table, split, groups)},
        )
        return found["hits"]


def _share(hits: Hits, there: NDArray[Any]) -> float:
    return float(hits[there != ABSENT].mean())
