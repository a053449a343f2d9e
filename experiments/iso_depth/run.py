"""The iso-depth experiment: train the grid, leave out who is on the plateau, fit, write.

print(iso_depth(IsoDepthSettings(widths=(16, 32), steps=(500, 1000))))
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reloop.conf.checks.config import check_config
from reloop.conf.mistakes import ConfigError, RunError
from reloop.conf.schema import Config
from reloop.evaluation.errors import evaluation_prompts
from reloop.evaluation.remarks import shared
from reloop.training.assemble import build_task
from reloop.training.jobs.processes import Outcome, cores, run_jobs
from reloop.training.run_folder.files import write_bytes, write_json

from ..plateau import bayes_error, left
from ..scaling_law.report import fitted, report, write
from ..scaling_law.runs import Row, table_of
from ..scaling_law.table import ScalingTable, csv_of
from .grid import TrainAndMeasure, grid
from .report import grid_table, verdict
from .settings import IsoDepthSettings, in_settings

CLUSTERS = ("r", "width")  # such runs start alike; the prompts are the same for the whole grid


@dataclass(frozen=True)
class Measured:
    """Who left the plateau and who did not, the remarks on all of them, and the mean errors of the
    best predictor and of predicting 0 on the prompts that all were measured on."""

    off: ScalingTable
    on: ScalingTable
    remarks: tuple[str, ...]
    bayes: float
    zero: float


def iso_depth(settings: IsoDepthSettings) -> str:
    """Train what is not trained yet, fit, write into <folder>/iso_depth-<hash>: iso_depth.json,
    runs.csv, plateau.csv and, with a fit, scaling_law.json and figures/; what is shown of it.

    Raises ConfigError for settings that cannot run; RunError, when all else is written and printed,
    where a run failed or the table does not determine a law. At a signal KeyboardInterrupt or
    SystemExit, when every training has saved.
    """
    configs = grid(settings)
    for config in configs:
        try:
            check_config(config)
        except ConfigError as error:
            raise in_settings(error) from None
    folder = Path(settings.folder) / f"iso_depth-{_digest(settings)}"
    at_once = min(settings.jobs or cores(), len(configs))
    jobs = [TrainAndMeasure(config) for config in configs]
    outcomes = run_jobs(jobs, at_once, folder / "logs")
    failed = [
        f"{job.name}: {outcome.failure}"
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.result is None
    ]
    measured = _measured(configs, outcomes)
    if measured is None:
        raise RunError(f"every run failed; the first: {failed[0]}")
    text = _fit_and_write(settings, measured, folder, failed)
    if failed:
        print(text, flush=True)
        raise RunError(f"{len(failed)} of {len(jobs)} runs failed; the first: {failed[0]}")
    return text


def _measured(configs: Sequence[Config], outcomes: Sequence[Outcome]) -> Measured | None:
    """What the runs that did not fail came to, by r, width and steps; None without any."""
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    if not results:
        return None
    config, bayes = configs[0], results[0]["bayes"]
    task, asked = build_task(config), config.evaluation
    prompts = evaluation_prompts(task, asked.prompts, config.task.points, asked.seed)
    zero = float(prompts.ys.double().square().mean()) / task.divisor
    trained = [
        (result.result["row"], config.model.n_embd, config.training.steps)
        for config, result in zip(configs, outcomes, strict=True)
        if result.result is not None
    ]
    trained.sort(key=lambda each: (each[0].r, *each[1:]))
    off = [each for each in trained if left(each[0].loss, bayes, zero)]
    on = [each for each in trained if each not in off]
    told = tuple(shared({row.name: row.remarks for row, *_ in trained}))
    return Measured(_table(off), _table(on), told, bayes, zero)


def _table(trained: Sequence[tuple[Row, int, int]]) -> ScalingTable:
    rows = [row for row, _, _ in trained]
    widths, steps = [width for _, width, _ in trained], [steps for _, _, steps in trained]
    return table_of(rows, width=widths, steps=steps, run=[row.name for row in rows])


def _fit_and_write(
    settings: IsoDepthSettings, measured: Measured, folder: Path, failed: Sequence[str]
) -> str:
    """All that follows from the losses; where they determine no law a RunError, and what was found
    is printed."""
    off, on = measured.off, measured.on
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "runs.csv", csv_of(off).encode())
    write_bytes(folder / "plateau.csv", csv_of(on).encode())
    expected = bayes_error(settings.dims, settings.points)
    result: dict[str, Any] = {
        "settings": _plain(settings),
        "bayes": measured.bayes,
        "bayes_expected": expected,
        "zero": measured.zero,
        "fitted": len(off),
        "on_plateau": list(on.labels["run"]),
        "failed": list(failed),
        "remarks": list(measured.remarks),
    }
    shown = [*measured.remarks, grid_table(off, on), ""]
    try:
        fits = fitted(off, {"E": measured.bayes}, CLUSTERS, settings.resamples, seed=0)
    except RunError as error:
        write_json(folder / "iso_depth.json", result | {"verdict": None})
        print("\n".join(shown), flush=True)
        raise RunError(
            f"no law can be fitted to the {len(off)} runs of {len(off) + len(on)} that left the "
            f"plateau: {error}; {folder} has their losses"
        ) from None
    write(fits, off, folder)
    said = verdict(fits, off, on, measured.bayes, measured.zero, expected)
    unknown = list(fits["not_determined"])
    write_json(folder / "iso_depth.json", result | {"verdict": said, "not_determined": unknown})
    files = "iso_depth.json, scaling_law.json, runs.csv, plateau.csv, figures/"
    return "\n".join([*shown, report(fits), "", said, "", f"{folder}: {files}"])


def _digest(settings: IsoDepthSettings) -> str:
    content = json.dumps(_plain(settings))
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _plain(settings: IsoDepthSettings) -> dict[str, Any]:
    """The settings that bear on the result."""
    plain = asdict(replace(settings, folder="", jobs=None))
    return {key: value for key, value in plain.items() if key not in ("folder", "jobs")}
