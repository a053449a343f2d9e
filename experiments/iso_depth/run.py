"""The iso-depth experiment: train the grid, leave out runs on the plateau, fit, write.

print(iso_depth(IsoDepthSettings(widths=(16, 32), steps=(500, 1000))))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from reloop.conf.checks.config import check_config
from reloop.conf.mistakes import ConfigError, RunError
from reloop.conf.schema import Config
from reloop.evaluation.bootstrap import numbers
from reloop.evaluation.errors import evaluation_prompts
from reloop.evaluation.evaluate_run import evaluate
from reloop.evaluation.remarks import shared
from reloop.evaluation.results import by_solver
from reloop.evaluation.tables import Part, document
from reloop.training import train
from reloop.training.assemble import build_task
from reloop.training.jobs import Outcome, Workers, processes_for, run_jobs
from reloop.training.run_folder.files import read_json, write_bytes, write_json
from reloop.training.run_folder.run import RunFolder

from ..plateau import bayes_error, has_left_plateau
from ..scaling_law.report import Fitted, digest, fitted, report, write
from ..scaling_law.runs import Row, row_of, table_of
from ..scaling_law.table import COLUMNS, ScalingTable, csv_of, read_csv
from .report import Measurements, grid_table, verdict
from .settings import IsoDepthSettings, in_settings

CLUSTERS = ("r", "width")  # such runs share their initial weights; all runs share the prompts


def grid(settings: IsoDepthSettings) -> list[Config]:
    """A configuration for each r, width and number of steps, the longest trainings first."""
    axes = product(sorted(settings.steps, reverse=True), settings.widths, settings.r)
    return [settings.config(steps, width, r) for steps, width, r in axes]


class Measured(NamedTuple):
    """The run's row of a scaling table, the mean Bayes error on its prompts, and the seconds of
    training, None where they are not known."""

    row: Row
    bayes: float
    seconds: float | None


class StoredIsoDepth(TypedDict):
    """The content of iso_depth.json, that of scaling_law.json (None: no law could be fitted), and a
    row for each run with the columns of runs.csv, and whether it left the plateau."""

    result: dict[str, Any]
    law: dict[str, Any] | None
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class TrainAndMeasure:
    """Train as configured, unless it is trained, and measure the run."""

    config: Config

    @property
    def name(self) -> str:
        """r, width and steps, for messages."""
        config = self.config
        return f"r = {config.loops.b}, {config.model.n_embd} wide, {config.training.steps} steps"

    def __call__(self) -> Measured:
        """Raises the errors of `train`."""
        run = train(self.config)
        config = self.config
        evaluation = evaluate(run, config.evaluation, config.device, config.figures)
        bayes = float(np.mean(numbers(by_solver(evaluation["by_examples"])["bayes"]["mean"])))
        return Measured(row_of(run), bayes, RunFolder(run.path).status().get("seconds"))

    def describe(self, result: Measured) -> str:
        """The loss and the time of training, as a short text."""
        return f"loss {result.row.loss:.4f}, trained in {result.seconds or 0:.0f} s"


def iso_depth(settings: IsoDepthSettings) -> str:
    """Train what is not trained yet, fit, write into <folder>/iso_depth-<hash>: iso_depth.json,
    runs.csv, plateau.csv and, with a fit, scaling_law.json and figures/; returns the text to print.

    Raises ConfigError for invalid settings; RunError, after all else is written and printed, if a
    run failed or the table does not determine a law. At a signal KeyboardInterrupt or SystemExit,
    after every training has saved.
    """
    configs = grid(settings)
    for config in configs:
        try:
            check_config(config)
        except ConfigError as error:
            raise in_settings(error) from None
    folder = result_folder(settings)
    processes = processes_for(len(configs), settings.jobs, configs[0])
    jobs = [TrainAndMeasure(config) for config in configs]
    outcomes = run_jobs(jobs, Workers(processes, folder / "logs"))
    failures = [
        f"{job.name}: {outcome.failure}"
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.result is None
    ]
    measurements = _measurements(configs, outcomes)
    if measurements is None:
        raise RunError(f"every run failed; the first: {failures[0]}")
    text = _fit_and_write(settings, measurements, folder, failures)
    if failures:
        print(text, flush=True)
        raise RunError(f"{len(failures)} of {len(jobs)} runs failed; the first: {failures[0]}")
    return text


def result_folder(settings: IsoDepthSettings) -> Path:
    """The folder of the experiment's files."""
    return Path(settings.folder) / f"iso_depth-{digest(_plain(settings))}"


def stored(settings: IsoDepthSettings) -> StoredIsoDepth | None:
    """The last result of `iso_depth` with these settings; None if there is none, or only a part."""
    folder = result_folder(settings)
    result = read_json(folder / "iso_depth.json")
    try:
        rows = [
            {**row, "left_plateau": left}
            for name, left in (("runs", True), ("plateau", False))
            for row in _rows(read_csv(folder / f"{name}.csv"))
        ]
    except RunError:
        return None
    if not isinstance(result, dict):
        return None
    law = read_json(folder / "scaling_law.json") if result["verdict"] is not None else None
    return {"result": result, "law": law, "rows": rows}


def _rows(table: ScalingTable) -> list[dict[str, Any]]:
    columns = {name: getattr(table, name).tolist() for name in COLUMNS}
    columns |= {name: [int(value) for value in table.labels[name]] for name in ("width", "steps")}
    columns["run"] = list(table.labels["run"])
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _measurements(configs: Sequence[Config], outcomes: Sequence[Outcome]) -> Measurements | None:
    """The results of the runs that did not fail, by r, width and steps; None without any."""
    pairs = zip(configs, outcomes, strict=True)
    results: list[tuple[Config, Measured]] = [
        (config, outcome.result) for config, outcome in pairs if outcome.result is not None
    ]
    if not results:
        return None
    config, bayes = configs[0], results[0][1].bayes
    task, evaluation = build_task(config), config.evaluation
    prompts = evaluation_prompts(task, evaluation.prompts, config.task.points, evaluation.seed)
    zero = float(prompts.ys.double().square().mean()) / task.divisor
    entries = [(each.row, run.model.n_embd, run.training.steps) for run, each in results]
    entries.sort(key=lambda entry: (entry[0].r, *entry[1:]))
    off_plateau = [entry for entry in entries if has_left_plateau(entry[0].loss, bayes, zero)]
    on_plateau = [entry for entry in entries if entry not in off_plateau]
    remarks = tuple(shared({row.name: row.remarks for row, *_ in entries}))
    return Measurements(_table(off_plateau), _table(on_plateau), remarks, bayes, zero)


def _table(entries: Sequence[tuple[Row, int, int]]) -> ScalingTable:
    rows = [row for row, _, _ in entries]
    widths, steps = [width for _, width, _ in entries], [steps for _, _, steps in entries]
    return table_of(rows, width=widths, steps=steps, run=[row.name for row in rows])


def _fit_and_write(
    settings: IsoDepthSettings, measurements: Measurements, folder: Path, failures: Sequence[str]
) -> str:
    """Write everything computed from the losses, and return its text; RunError, after the losses
    are printed, if they determine no law."""
    off_plateau, on_plateau = measurements.off_plateau, measurements.on_plateau
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "runs.csv", csv_of(off_plateau).encode())
    write_bytes(folder / "plateau.csv", csv_of(on_plateau).encode())
    expected = bayes_error(settings.dims, settings.points)
    result = {
        "settings": _plain(settings),
        "bayes": measurements.bayes,
        "bayes_expected": expected,
        "zero": measurements.zero,
        "losses": _losses(off_plateau),
        "fitted": len(off_plateau),
        "on_plateau": list(on_plateau.labels["run"]),
        "failed": list(failures),
        "remarks": list(measurements.remarks),
    }
    parts: list[Part] = [*measurements.remarks, grid_table(off_plateau, on_plateau), ""]
    form = settings.tables.format
    try:
        fits = fitted(off_plateau, {"E": measurements.bayes}, CLUSTERS, settings.resamples, seed=0)
    except RunError as error:
        write_json(folder / "iso_depth.json", result | {"verdict": None})
        print(document(parts, form), flush=True)
        raise RunError(
            f"no law can be fitted to the {len(off_plateau)} runs of "
            f"{len(off_plateau) + len(on_plateau)} that left the plateau: {error}; "
            f"{folder} has their losses"
        ) from None
    write(fits, folder, settings.figures)
    text = verdict(fits.fits["free"], fits.certainty, measurements, expected)
    undetermined = list(fits.certainty.not_determined)
    result |= {"verdict": text, "not_determined": undetermined, "phi": _phi(fits)}
    write_json(folder / "iso_depth.json", result)
    files = "iso_depth.json, scaling_law.json, runs.csv, plateau.csv, figures/"
    return f"{document([*parts, *report(fits), '', text], form)}\n\n{folder}: {files}"


def _phi(fits: Fitted) -> dict[str, float | None]:
    """phi and the ends of its 90 % interval, None where the search's edge is one."""
    known = fits.certainty
    return {
        "value": fits.fits["free"].law.phi,
        "low": None if "phi" in known.low_at_edge else known.low["phi"],
        "high": None if "phi" in known.high_at_edge else known.high["phi"],
    }


def _losses(table: ScalingTable) -> list[dict[str, float]]:
    """The loss of each run, with its r, width and steps."""
    columns = (table.r, table.labels["width"], table.labels["steps"], table.loss)
    return [
        {"r": float(r), "width": int(width), "steps": int(steps), "loss": float(loss)}
        for r, width, steps, loss in zip(*columns, strict=True)
    ]


def _plain(settings: IsoDepthSettings) -> dict[str, Any]:
    """The settings that the result depends on."""
    no_effect = ("folder", "jobs", "figures", "tables")
    return {key: value for key, value in asdict(settings).items() if key not in no_effect}
