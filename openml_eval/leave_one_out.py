"""Train on all tables but one, test on that one: for every table, model and seed that is asked for.

outcome = leave_one_out(RunSettings(held_out=(720,)), {"looped": config})
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config
from reloop.training.assemble import build_task
from reloop.training.device import place
from reloop.training.jobs.processes import Outcome, cores, run_jobs
from reloop.training.run_folder.files import write_arrays, write_bytes, write_json

from .jobs import RunJob, Scoring, SolverJob
from .pictures import draw_accuracies
from .report import csv_text, report
from .run_settings import RunSettings
from .scoring import check_features
from .summary import summary
from .table_summary import TableSummary, evaluated_tables


@dataclass(frozen=True)
class LeftOut:
    """What was found: the content of openml.json, its text, and the runs that failed, a line
    each."""

    result: dict[str, Any]
    text: str
    failed: list[str]


def leave_one_out(settings: RunSettings, configs: Mapping[str, Config]) -> LeftOut:
    """Train and score what is asked for; `configs` are the models' by family, to which tables and
    seeds are added. Written into <folder>/openml-<hash>: openml.json, openml.csv, openml.npz (hits
    row by row), figures/.

    What was done before is found. Raises ConfigError and RunError before anything is written, for
    what cannot be; KeyboardInterrupt or SystemExit at a signal, when every training has saved.
    """
    held_out, everyone = evaluated_tables(settings)
    first = next(iter(configs.values()))
    widest = max(everyone, key=lambda table: table.features)
    check_features(widest.name, widest.features, first.task.dims)
    for each in everyone:
        _check_rows(each, first)
    scoring = Scoring(
        Path(settings.data_dir),
        first.task.points - 1,
        settings.contexts,
        settings.draws,
    )
    runs = [
        RunJob(config, table, scoring)
        for table in held_out
        for config in _seeded(settings, configs, table, everyone)
    ]
    for job in runs:
        build_task(job.config)
    folder = Path(first.folder)
    solved = []
    if settings.protocol == "corrected":
        solved = [SolverJob(table, scoring, folder / "openml-cache") for table in held_out]
    jobs: list[RunJob | SolverJob] = [*runs, *solved]
    place_of = folder / f"openml-{_digest(settings, runs, everyone, first)}"
    outcomes = run_jobs(jobs, _at_once(settings, first, len(jobs)), place_of / "logs")
    return _finish(settings, place_of, jobs, outcomes, held_out, first)


def _check_rows(table: TableSummary, config: Config) -> None:
    if table.rows < config.task.points:
        raise ConfigError(
            "task.points", f"is {config.task.points}, and {table.name} has {table.rows} rows"
        )


def _seeded(
    settings: RunSettings,
    configs: Mapping[str, Config],
    table: TableSummary,
    everyone: Sequence[TableSummary],
) -> list[Config]:
    """The configurations of the runs in which a table is held out."""
    ours = {
        "data_dir": settings.data_dir,
        "tables": [each.name for each in everyone],
        "held_out": table.name,
        "protocol": settings.protocol,
    }
    return [
        replace(
            config,
            seed=seed,
            task=replace(config.task, settings={**config.task.settings, **ours}),
        )
        for config in configs.values()
        for seed in settings.seeds or (config.seed,)
    ]


def _at_once(settings: RunSettings, config: Config, jobs: int) -> int:
    """Small models use one core well and two badly; a GPU takes one at a time."""
    on_cpu = place(config.device, config.precision, config.backend).device.type == "cpu"
    return min(settings.jobs or (cores() if on_cpu else 1), jobs)


def _digest(
    settings: RunSettings, runs: Sequence[RunJob], everyone: Sequence[TableSummary], first: Config
) -> str:
    content = {
        "runs": [job.path.name for job in runs],
        "tables": [each.sha256 for each in everyone],
        "scored": [settings.protocol, settings.contexts, settings.draws],
        "resamples": [first.evaluation.resamples, first.evaluation.seed],
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]


def _finish(
    settings: RunSettings,
    place_of: Path,
    jobs: Sequence[RunJob | SolverJob],
    outcomes: Sequence[Outcome],
    held_out: Sequence[TableSummary],
    config: Config,
) -> LeftOut:
    """Put what was found together and write it."""
    failed = [
        f"{job.name}: {outcome.failure}"
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.result is None
    ]
    done = [
        (job, outcome.result)
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.result is not None
    ]
    asked = {
        "settings": _plain(settings),
        "evaluation_seeds": settings.draws,
        "k": config.task.points - 1,
        "scale": config.scale,
        "resamples": config.evaluation.resamples,
        "seed": config.evaluation.seed,
    }
    result = asked | summary(done, held_out, config.evaluation) | {"failed": failed}
    place_of.mkdir(parents=True, exist_ok=True)
    write_arrays(place_of / "openml.npz", _arrays(done))
    write_bytes(place_of / "openml.csv", csv_text(result).encode())
    draw_accuracies(result, place_of / "figures")
    write_json(place_of / "openml.json", result)
    text = f"{report(result)}\n\n{place_of}: openml.json, openml.csv, figures/"
    return LeftOut(result | {"path": str(place_of)}, text, failed)


def _arrays(done: Sequence[tuple[RunJob | SolverJob, dict[str, Any]]]) -> dict[str, Any]:
    """Hits row by row under the run's name, or the table's and the solver's."""
    arrays: dict[str, Any] = {}
    for job, result in done:
        if isinstance(job, SolverJob):
            arrays |= {f"{job.table.name}/{name}": hits for name, hits in result["hits"].items()}
        else:
            arrays[Path(result["path"]).name] = result.get("hits", result.get("accuracies"))
    return arrays


def _plain(settings: RunSettings) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(settings).items()
        if key != "jobs"
    }
