"""Train on all tables but one and test on that one: for every table, model and seed of a command.

outcome = leave_one_out(RunSettings(held_out=(720,)), {"looped": config})
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.kept import Arrays
from looplab.evaluation.figures import drawn_once
from looplab.training.assemble import build_task
from looplab.training.jobs import Outcome, Workers, processes_for, run_jobs
from looplab.training.run_folder.files import read_json, write_arrays, write_bytes, write_json

from .jobs import RunJob, RunScores, Scoring, SolverJob, SolverScores, TableSummary
from .report import csv_text, draw_accuracies, report
from .results import Result, summary
from .scoring import check_features
from .settings import RunSettings
from .tables.store import check_tables, find_table, read_table


@dataclass(frozen=True)
class LeaveOneOut:
    """The folder and content of openml.json, its text, and a line on each run that failed."""

    folder: Path
    result: Result
    text: str
    failures: list[str]


def leave_one_out(settings: RunSettings, configs: Mapping[str, Config]) -> LeaveOneOut:
    """Train and score the runs of a command; `configs` are the models' by family, to which tables
    and seeds are added. Writes into <folder>/openml-<hash>: openml.json, openml.csv, openml.npz
    (hits row by row), figures/.

    Stored results are reused. Raises ConfigError and RunError before anything is written, for
    invalid settings; KeyboardInterrupt or SystemExit at a signal, when every training has saved.
    """
    plan = _plan(settings, configs)
    outcomes = run_jobs(
        plan.jobs,
        Workers(processes_for(len(plan.jobs), settings.jobs, plan.first), plan.folder / "logs"),
    )
    return _finish(settings, plan, outcomes)


def stored(settings: RunSettings, configs: Mapping[str, Config]) -> dict[str, Any] | None:
    """The content of the openml.json that `leave_one_out` wrote; None if there is none. Raises as
    it."""
    content = read_json(_plan(settings, configs).folder / "openml.json")
    return content if isinstance(content, dict) else None


@dataclass(frozen=True)
class _Plan:
    """The jobs of a command, the tables that they hold out, the folder of their result, and the
    first model's configuration."""

    jobs: list[RunJob | SolverJob]
    held_out: list[TableSummary]
    folder: Path
    first: Config


def _plan(settings: RunSettings, configs: Mapping[str, Config]) -> _Plan:
    """Raises ConfigError and RunError for invalid settings."""
    held_out, tables = evaluated_tables(settings)
    first = next(iter(configs.values()))
    widest = max(tables, key=lambda table: table.features)
    check_features(widest.name, widest.features, first.task.dims)
    for table in tables:
        if table.rows < (points := first.task.points):
            raise ConfigError("task.points", f"is {points}, and {table.name} has {table.rows} rows")
    scoring = Scoring(
        Path(settings.data_dir), first.task.points - 1, settings.contexts, settings.draws
    )
    runs = [
        RunJob(config, table, scoring)
        for table in held_out
        for config in _run_configs(settings, configs, table, tables)
    ]
    for job in runs:
        build_task(job.config)
    folder = Path(first.folder)
    solver_jobs = []
    if settings.protocol == "corrected":
        solver_jobs = [SolverJob(table, scoring, folder / "openml-cache") for table in held_out]
    content = {
        "runs": [job.path.name for job in runs],
        "tables": [each.sha256 for each in tables],
        "scored": [settings.protocol, settings.contexts, settings.draws],
        "resamples": [first.evaluation.resamples, first.evaluation.seed],
    }
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]
    return _Plan([*runs, *solver_jobs], held_out, folder / f"openml-{digest}", first)


def evaluated_tables(settings: RunSettings) -> tuple[list[TableSummary], list[TableSummary]]:
    """The tables that are held out one after another, and all tables, each checked once against its
    sha256.

    Raises RunError for a table that is not stored or is damaged, with the command that fetches it;
    ConfigError for a held-out table that is not among the tables, and for one named twice.
    """
    folder, keys = Path(settings.data_dir), [_without_ending(key) for key in settings.tables]
    check_tables(folder, keys)
    tables = [_summary(folder, key) for key in keys]
    by_key = {key: table for table in tables for key in (table.openml_id, table.name)}
    held_out = keys if settings.held_out == ("all",) else map(_without_ending, settings.held_out)
    chosen = []
    for key in held_out:
        if key not in by_key:
            names = ", ".join(str(table.openml_id or table.name) for table in tables)
            problem = f"cannot be {key!r}: the tables that take part are {names}"
            raise ConfigError("held_out", problem)
        chosen.append(by_key[key])
    for setting, found in (("tables", tables), ("held_out", chosen)):
        for table in found:
            if found.count(table) > 1:  # by its id and by its name
                raise ConfigError(setting, f"holds {table.name} twice")
    return chosen, tables


def _without_ending(key: int | str) -> int | str:
    """The name of a CSV file's table; any other key unchanged."""
    return Path(key).stem if isinstance(key, str) and key.endswith(".csv") else key


def _summary(folder: Path, key: int | str) -> TableSummary:
    """A stored table by its id or name; RunError as `read_table`."""
    table = read_table(folder, key)
    path = find_table(folder, key)
    assert path is not None
    rows, features = table.xs.shape
    return TableSummary(
        name=table.name,
        openml_id=table.source.openml_id,
        rows=rows,
        features=features,
        counts=table.counts,
        sha256=read_json(path)["sha256"],
        remarks=tuple(table.remarks),
    )


def _run_configs(
    settings: RunSettings,
    configs: Mapping[str, Config],
    table: TableSummary,
    tables: Sequence[TableSummary],
) -> list[Config]:
    """The configurations of the runs with one held-out table."""
    table_settings = {
        "data_dir": settings.data_dir,
        "tables": [each.name for each in tables],
        "held_out": table.name,
        "protocol": settings.protocol,
    }
    return [
        replace(
            config,
            seed=seed,
            task=replace(config.task, settings={**config.task.settings, **table_settings}),
        )
        for config in configs.values()
        for seed in settings.seeds or (config.seed,)
    ]


def _finish(settings: RunSettings, plan: _Plan, outcomes: Sequence[Outcome]) -> LeaveOneOut:
    """Combine the outcomes and write the result."""
    folder, config = plan.folder, plan.first
    scored: list[tuple[RunJob, RunScores]] = []
    solved: list[tuple[SolverJob, SolverScores]] = []
    failures: list[str] = []
    arrays: Arrays = {}  # by the run's name, or by the table's and the solver's
    for job, outcome in zip(plan.jobs, outcomes, strict=True):
        if outcome.result is None:
            failures.append(f"{job.name}: {outcome.failure}")
        elif isinstance(job, RunJob):
            scored.append((job, outcome.result))
            arrays[Path(outcome.result.path).name] = outcome.result.scores
        else:
            solved.append((job, outcome.result))
            arrays |= {f"{job.table.name}/{name}": h for name, h in outcome.result.hits.items()}
    result: Result = {
        "settings": settings,
        "evaluation_seeds": settings.draws,
        "k": config.task.points - 1,
        "scale": config.scale,
        "resamples": config.evaluation.resamples,
        "seed": config.evaluation.seed,
        **summary(scored, solved, plan.held_out, config.evaluation),
        "failed": failures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_arrays(folder / "openml.npz", arrays)
    write_bytes(folder / "openml.csv", csv_text(result).encode())
    plain_settings = {key: value for key, value in asdict(settings).items() if key != "jobs"}
    content = {**result, "settings": plain_settings}
    write_json(folder / "openml.json", content)
    record, draw = folder / "figures" / "drawn.json", partial(draw_accuracies, result)
    drawn_once(record, key_of(content), config.figures, draw)
    text = report(result, config.tables.format)
    text = f"{text}\n\n{folder}: openml.json, openml.csv, figures/"
    return LeaveOneOut(folder, result, text, failures)
