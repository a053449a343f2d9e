"""Train on all tables but one and test on that one: for every table, model and seed of a command.

result, text = leave_one_out(RunSettings(held_out=(720,)), {"looped": config})
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import clustered_bootstrap
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.kept import Arrays, Cache, shown
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.remarks import remarks
from looplab.training import Run, train
from looplab.training.assemble import build_task, trained_loops
from looplab.training.device import place_exactly
from looplab.training.jobs import processes_for, run_jobs
from looplab.training.run_folder.files import read_record, write_arrays
from looplab.training.run_folder.run import RunFolder, run_folder
from looplab.training.run_folder.sources import EVALUATED, sources_of

from .report import accuracy_panel, printed, report
from .scoring import (
    ABSENT,
    FIRST_SEED,
    SOLVERS,
    ContextSplit,
    Hits,
    model_hits,
    reference_accuracies,
    solver_hits,
    split_contexts,
)
from .settings import RunSettings, table_key
from .tables import Table, check_tables, read_table

KIND = "openml"
_GROUP_CHUNK = 8  # of whose hits each file of a cache holds some


def leave_one_out(
    settings: RunSettings, configs: Mapping[str, Config]
) -> tuple[dict[str, Any], str]:
    """Train and score the runs of a command; `configs` are the models' by family, to which tables
    and seeds are added. Writes into <folder>/openml-<hash>: openml.json, openml.npz (hits row by
    row), figures/; returns the content of openml.json, in which `failed` has a line on each run
    that failed, and the text to print.

    Stored results are reused. Raises ConfigError and RunError before anything is written, for
    invalid settings; KeyboardInterrupt or SystemExit at a signal, when every training has saved.
    """
    jobs, held_out, folder = _plan(settings, configs)
    first = next(iter(configs.values()))
    processes = processes_for(len(jobs), settings.jobs, first)
    outcomes = run_jobs(jobs, processes, folder / "logs")
    done, failures, scores = list[Done](), list[str](), dict[str, NDArray[Any]]()
    for job, outcome in zip(jobs, outcomes, strict=True):
        if outcome.result is None:
            failures.append(f"{job.name}: {outcome.failure}")
        else:
            done.append((job, outcome.result))
            scores |= outcome.result.scores
    result = {
        "settings": {key: value for key, value in asdict(settings).items() if key != "jobs"},
        "evaluation_seeds": settings.draws,
        "k": first.task.points - 1,
        "scale": first.scale,
        "resamples": first.evaluation.resamples,
        "seed": first.evaluation.seed,
        **summary(done, held_out, first.evaluation),
        "failed": failures,
    }

    def make() -> Iterator[Path]:
        write_arrays(folder / "openml.npz", scores)
        yield folder / "openml.npz"
        yield from save_panels(folder / "figures", [accuracy_panel(result)], first.figures)

    shown(folder / "openml.json", KIND, {**result, "figures": first.figures.plain()}, make)
    text = report(result, first.tables.format)
    return result, f"{text}\n\n{folder}: openml.json, figures/"


def stored(settings: RunSettings, configs: Mapping[str, Config]) -> dict[str, Any] | None:
    """The content of the openml.json that `leave_one_out` wrote; None if there is none. Raises as
    it."""
    _, _, folder = _plan(settings, configs)
    return read_record(folder / "openml.json", KIND).content


@dataclass(frozen=True)
class Scored:
    """What a job found: what openml.json says of its training, its seconds, and by name hits
    [evaluation seeds, groups, group size], of a run [..., 2] for both polarities; under the
    reference's protocol a run's accuracies [evaluation seeds, 2]."""

    entry: dict[str, Any]
    seconds: float
    scores: Arrays


@dataclass(frozen=True)
class _Job:
    """The base of both kinds of jobs, which score on all rows of a table: with `size` rows in each
    of `contexts` contexts, for evaluation seeds 0 to `seeds` - 1."""

    table: Table
    size: int
    contexts: int
    seeds: int

    def describe(self, result: Scored) -> str:
        """The accuracies and the time."""
        means = (
            hits[:, 0].mean() if hits.ndim == 2 else hits[hits != ABSENT].mean()
            for hits in result.scores.values()
        )
        return f"accuracy {', '.join(f'{mean:.3f}' for mean in means)}, in {result.seconds:.0f} s"

    def _hits(
        self,
        cache: Cache,
        name: str,
        content: Mapping[str, object],
        score: Callable[[ContextSplit, slice], Hits],
    ) -> Hits:
        """Hits [evaluation seeds, groups, …], from the cache or by `score`, group by group;
        `content` is what they depend on beside table and contexts."""
        by_seed = []
        for seed in range(self.seeds):
            split = split_contexts(len(self.table.ys), self.size, self.contexts, seed)
            full_content = {
                **content,
                "table": self.table.sha256,
                "size": self.size,
                "contexts": self.contexts,
                "seed": seed,
                "sources": sources_of(*EVALUATED, "openml_eval"),
            }

            def compute(groups: slice, split: ContextSplit = split) -> Arrays:
                return {"hits": score(split, groups)}

            rows = cache.rows(name, full_content, len(split.groups), _GROUP_CHUNK, compute)
            by_seed.append(rows["hits"])
        return np.stack(by_seed)


@dataclass(frozen=True)
class RunJob(_Job):
    """Train a run, unless it is finished, and score it on its held-out table."""

    config: Config

    @property
    def name(self) -> str:
        """Table, model and seed, for messages."""
        return f"{self.table.label}, {self.config.model.family}, seed {self.config.seed}"

    def __call__(self) -> Scored:
        """Raises as `train`."""
        run = train(self.config)
        seconds = RunFolder(run.path).status().get("seconds")
        entry = {
            "path": str(run.path),
            "seed": self.config.seed,
            "step": run.step,
            "seconds": seconds,  # of training
            "remarks": remarks(run),
        }
        return Scored(entry, seconds or 0, {run.path.name: self._scores(run)})

    def _scores(self, run: Run) -> NDArray[Any]:
        place_exactly(self.config.device).prepare(run.model).eval()
        if self.config.task.settings["protocol"] == "reference":
            seeds, points = range(FIRST_SEED, FIRST_SEED + self.seeds), self.size + 1
            found = [reference_accuracies(run, self.table, points, seed) for seed in seeds]
            return np.array(found)
        content = {
            "weights": weights_digest(run.model),
            "labels": run.task.labels,
            "loops": trained_loops(run.config),
        }
        score = partial(model_hits, run, self.table)
        return self._hits(Cache(run.path / "cache"), "tables", content, score)


@dataclass(frozen=True)
class SolverJob(_Job):
    """Score every solver on a table, on the same queries and contexts as the models."""

    cache: Path

    @property
    def name(self) -> str:
        """Table and solvers, for messages."""
        return f"{self.table.label}, {', '.join(SOLVERS)}"

    def __call__(self) -> Scored:
        """Score them one after another."""
        start, scores = time.monotonic(), {}
        self.cache.mkdir(parents=True, exist_ok=True)
        for name, description in SOLVERS.items():
            content, score = {"solver": description}, partial(solver_hits, name, self.table)
            hits = self._hits(Cache(self.cache), name, content, score)
            scores[f"{self.table.name}/{name}"] = hits
        return Scored({}, time.monotonic() - start, scores)


Done = tuple[RunJob | SolverJob, Scored]


def _plan(
    settings: RunSettings, configs: Mapping[str, Config]
) -> tuple[list[RunJob | SolverJob], list[Table], Path]:
    """The jobs of a command, the tables that they hold out, and the folder of their result. Raises
    ConfigError and RunError for invalid settings."""
    held_out, tables = evaluated_tables(settings)
    first = next(iter(configs.values()))
    points, folder = first.task.points, Path(first.folder)
    for table in sorted(tables, key=lambda table: -len(table.features)):
        rows, features = table.xs.shape
        if features > (dims := first.task.dims):
            problem = f"is {dims}, and {table.name} has {features} features: task.dims={features}"
            raise ConfigError("task.dims", problem)
        if rows < points:
            raise ConfigError("task.points", f"is {points}, and {table.name} has {rows} rows")
    how = (points - 1, settings.contexts, settings.draws)
    own: dict[str, Any] = {
        "data_dir": settings.data_dir,
        "tables": [each.name for each in tables],
        "protocol": settings.protocol,
    }
    runs = []
    for table in held_out:
        own["held_out"] = table.name
        for config in configs.values():
            task = replace(config.task, settings={**config.task.settings, **own})
            for seed in settings.seeds or (config.seed,):
                runs.append(RunJob(table, *how, replace(config, seed=seed, task=task)))
                build_task(runs[-1].config)
    content = {
        "runs": [run_folder(job.config).path.name for job in runs],
        "tables": [each.sha256 for each in tables],
        "scored": [settings.protocol, settings.contexts, settings.draws],
        "resamples": [first.evaluation.resamples, first.evaluation.seed],
    }
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]
    jobs: list[RunJob | SolverJob] = [*runs]
    if settings.protocol == "corrected":
        jobs += [SolverJob(table, *how, folder / "openml-cache") for table in held_out]
    return jobs, held_out, folder / f"openml-{digest}"


def evaluated_tables(settings: RunSettings) -> tuple[list[Table], list[Table]]:
    """The tables that are held out one after another, and all tables.

    Raises RunError for a table that is not stored or is damaged, with the command that fetches it;
    ConfigError for a held-out table that is not among the tables, and for one named twice.
    """
    folder, keys = Path(settings.data_dir), [table_key(table) for table in settings.tables]
    check_tables(folder, keys)
    tables = [read_table(folder, key) for key in keys]
    by_key = {key: table for table in tables for key in (table.source.openml_id, table.name)}
    held_out = keys if settings.held_out == ("all",) else map(table_key, settings.held_out)
    chosen = []
    for key in held_out:
        if key not in by_key:
            names = ", ".join(str(table.source.openml_id or table.name) for table in tables)
            problem = f"cannot be {key!r}: the tables that take part are {names}"
            raise ConfigError("held_out", problem)
        chosen.append(by_key[key])
    for setting, found in (("tables", tables), ("held_out", chosen)):
        for name, count in Counter(table.name for table in found).items():
            if count > 1:  # by its id and by its name
                raise ConfigError(setting, f"holds {name} twice")
    return chosen, tables


def summary(
    done: Sequence[Done], tables: Sequence[Table], settings: EvaluationConfig
) -> dict[str, Any]:
    """The results of all jobs by held-out table; the solvers' descriptions; for each family the
    number of tables on which the low end of its interval is above the share of the larger class,
    and the number of tables."""
    entries = [_entry(table, done, settings) for table in tables]
    beats: dict[str, list[int]] = {}
    for family, model in (each for entry in entries for each in entry["models"].items()):
        if "beats_majority" in model:
            counts = beats.setdefault(family, [0, 0])
            counts[0] += model["beats_majority"]
            counts[1] += 1
    return {"tables": entries, "solvers": SOLVERS, "beats_majority": beats}


def _entry(table: Table, done: Sequence[Done], settings: EvaluationConfig) -> dict[str, Any]:
    """A table with its models by family and its solvers by name."""
    runs: dict[str, list[Scored]] = {}
    solvers = {}
    for job, scored in done:
        if job.table is not table:
            continue
        if isinstance(job, RunJob):
            runs.setdefault(job.config.model.family, []).append(scored)
        else:
            for name, hits in scored.scores.items():
                solvers[name.rpartition("/")[2]] = accuracy([hits], hits, settings)
    paper, share = printed(table.source.openml_id), max(table.counts) / len(table.ys)
    models = {
        family: {
            "runs": [run.entry for run in scored_runs],
            **_accuracies(scored_runs, share, settings),
            "published": paper.get(family),
        }
        for family, scored_runs in runs.items()
    }
    return {
        "name": table.name,
        "label": table.label,
        "openml_id": table.source.openml_id,
        "rows": len(table.ys),
        "features": len(table.features),
        "counts": list(table.counts),
        "majority_share": share,
        "sha256": table.sha256,
        "remarks": table.remarks,
        "models": models,
        "solvers": solvers,
    }


def _accuracies(
    runs: Sequence[Scored], majority: float, settings: EvaluationConfig
) -> dict[str, Any]:
    """One family's accuracies on a table over its training seeds: with labels `as_is`, `swapped`,
    and `accuracy`, the mean of both."""
    scores = [values for run in runs for values in run.scores.values()]
    as_is, swapped = ([each[..., side] for each in scores] for side in (0, 1))
    if scores[0].ndim == 2:
        first = _over_draws(as_is)
        return {"accuracy": first, "as_is": first, "swapped": _over_draws(swapped)}
    both = [(a.astype(float) + b) / 2 for a, b in zip(as_is, swapped, strict=True)]
    mean = accuracy(both, as_is[0], settings)
    return {
        "accuracy": mean,
        "as_is": accuracy(as_is, as_is[0], settings),
        "swapped": accuracy(swapped, as_is[0], settings),
        "beats_majority": mean["low"] > majority,
    }


def accuracy(
    values: Sequence[NDArray[Any]], hits: NDArray[Any], settings: EvaluationConfig
) -> dict[str, float]:
    """Mean and 90 % interval of values [evaluation seeds, groups, group size], one array for each
    training seed, where `hits` of that shape are not ABSENT. Groups, of which no two share a row or
    a context, and training seeds are resampled."""
    mask = hits != ABSENT
    sums = np.stack([np.where(mask, each, 0).sum((0, 2)) for each in values])
    interval = clustered_bootstrap(sums, mask.sum((0, 2)), settings.resamples, settings.seed)
    mean, low, high = map(float, interval)
    return {"mean": mean, "low": low, "high": high}


def _over_draws(accuracies: Sequence[NDArray[Any]]) -> dict[str, float]:
    """Mean and standard deviation over draws of the mean over training seeds."""
    by_draw = np.stack(accuracies).mean(0)
    return {"mean": float(by_draw.mean()), "std": float(by_draw.std())}
