"""The iso-depth experiment: train the grid, leave out runs on the plateau, fit, write.

print(iso_depth(IsoDepthSettings(widths=(16, 32), steps=(500, 1000))))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from looplab.conf.checks.config import check_config
from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import evaluate
from looplab.evaluation.kept import shown
from looplab.evaluation.panel import Curve, Panel, without_interval
from looplab.evaluation.remarks import shared
from looplab.evaluation.results import by_solver
from looplab.evaluation.tables import Part, Table, document
from looplab.training import train
from looplab.training.assemble import build_task
from looplab.training.jobs import Outcome, Workers, processes_for, run_jobs
from looplab.training.run_folder.files import read_record, write_bytes
from looplab.training.run_folder.run import RunFolder

from ..plateau import LEAVES, bayes_error, has_left_plateau, highest
from ..scaling_law.certainty import Certainty
from ..scaling_law.fit import Fit
from ..scaling_law.report import fitted, report
from ..scaling_law.report import panels as law_panels
from ..scaling_law.runs import Row, row_of, table_of
from ..scaling_law.table import COLUMNS, ScalingTable, csv_of
from .settings import IsoDepthSettings, in_settings

_WELL = 0.9  # the least R² at which the law describes the losses
_SELECTED = (
    "leaving out by loss selects on the outcome: the worst of the short trainings are missing, "
    "which flattens the fit in D (beta tends to come out low) and leaves phi less certain"
)


@dataclass(frozen=True)
class Measurements:
    """The runs that left the plateau and those that did not, the remarks on all of them, and the
    mean errors of the best predictor and of predicting 0 on the prompts of the evaluation."""

    off_plateau: ScalingTable
    on_plateau: ScalingTable
    remarks: tuple[str, ...]
    bayes: float
    zero: float


def verdict(free: Fit, known: Certainty, runs: Measurements, expected: float) -> str:
    """phi and how well it is determined, the number of runs in the fit and what that means for it,
    and E, of which `expected` is the expectation. `free` is the fit to the runs off the plateau,
    `known` its certainty."""
    phi, largest_r, undetermined = free.law.phi, runs.off_plateau.r.max(), known.not_determined
    low = -np.inf if "phi" in known.low_at_edge else known.low["phi"]
    high = np.inf if "phi" in known.high_at_edge else known.high["phi"]
    meaning = "it is not determined" if "phi" in free.at_edge else _meaning(low, high)
    if "phi" in undetermined and "not determined" not in meaning:
        meaning = f"its value is not determined, but {meaning}"
    if "not determined" not in meaning:
        meaning += f"; a shared parameter run {largest_r:g} times counts as {largest_r**phi:.2f}"
    lines = [f"phi = {phi:.2f}, 90 % interval {_end_text(low)} to {_end_text(high)}: {meaning}"]
    if names := [name for name in undetermined if name != "phi"]:
        lines.append(f"of the law's other parameters, not determined: {', '.join(names)}")
    lines.append(
        "all runs were trained on the same prompts (one seed): the interval does not cover what "
        "another set of them would change"
    )
    if free.r2 < _WELL:
        lines.append(f"the law describes these losses badly: R² is {free.r2:.2f}")
    fitted, left_out = len(runs.off_plateau), len(runs.on_plateau)
    lines.append(
        f"{fitted} of {fitted + left_out} runs left the plateau (loss at most "
        f"{highest(runs.bayes, runs.zero):.4f}: E + {LEAVES:g} (Z - E)) and are fitted; "
        f"{left_out} did not and are left out" + _by_r(runs.off_plateau, runs.on_plateau)
    )
    if left_out:
        lines.append(_SELECTED)
    lines.append(
        f"E = {runs.bayes:.4f}, the Bayes error on the evaluation's prompts ({expected:.4f} "
        f"expected); Z = {runs.zero:.4f}, predicting 0"
    )
    return "\n".join(lines)


def _end_text(end: float) -> str:
    return f"{end:.2f}" if np.isfinite(end) else "the search's edge"


def _by_r(off_plateau: ScalingTable, on_plateau: ScalingTable) -> str:
    """The number of runs left out, by r."""
    if not len(on_plateau):
        return ""
    counts = ((r, np.sum(on_plateau.r == r)) for r in np.union1d(off_plateau.r, on_plateau.r))
    return ": " + ", ".join(f"{count} of r = {r:g}" for r, count in counts)


def _meaning(low: float, high: float) -> str:
    """The meaning of an interval of phi for a recurrence."""
    if low <= 0 and high >= 1:
        return "it is not determined, both 0 (nothing) and 1 (as much as layers of its own) may be"
    if low > 1:
        return "a recurrence is worth more than layers of its own"
    if high < 0:
        return "recurrences are worse than none"
    if high >= 1:
        return "a recurrence is worth something, possibly as much as layers of its own"
    if low <= 0:
        return "a recurrence is worth less than layers of its own, possibly nothing"
    return "a recurrence is worth something, and less than layers of its own"


def grid_table(off_plateau: ScalingTable, on_plateau: ScalingTable) -> Table:
    """The losses, a line for each r and width and a column for each number of steps; those on the
    plateau in brackets, a dash for a run that failed."""
    losses: dict[tuple[int, int, int], str] = {}
    for table, form in ((off_plateau, "{:.4f}"), (on_plateau, "({:.4f})")):
        axes = zip(table.r, table.labels["width"], table.labels["steps"], table.loss, strict=True)
        for r, width, steps, loss in axes:
            losses[int(r), int(width), int(steps)] = form.format(loss)
    columns = sorted({key[2] for key in losses})
    rows = [
        [
            "r = {}, {} wide".format(*model),
            *(losses.get((*model, column), "-") for column in columns),
        ]
        for model in sorted({key[:2] for key in losses})
    ]
    return Table(["loss by steps", *map(str, columns)], rows)


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
    runs.csv, plateau.csv and figures/; returns the text to print.

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
    return Path(settings.folder) / f"iso_depth-{key_of(_plain(settings), 8)}"


def stored(settings: IsoDepthSettings) -> dict[str, Any] | None:
    """The last content of iso_depth.json with these settings: what was found with the `panels`, the
    `law` as in scaling_law.json (None: no law could be fitted), and `runs`, a row for each with the
    columns of runs.csv, and whether it left the plateau. None if there is none."""
    return read_record(result_folder(settings) / "iso_depth.json", "iso_depth").content


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
    rows = _rows(off_plateau)
    result = {
        "settings": _plain(settings),
        "bayes": measurements.bayes,
        "bayes_expected": expected,
        "zero": measurements.zero,
        "losses": [{name: row[name] for name in ("r", "width", "steps", "loss")} for row in rows],
        "runs": [
            {**row, "left_plateau": left}
            for part, left in ((rows, True), (_rows(on_plateau), False))
            for row in part
        ],
        "fitted": len(off_plateau),
        "on_plateau": list(on_plateau.labels["run"]),
        "failed": list(failures),
        "remarks": list(measurements.remarks),
        "law": None,
    }
    drawn, notes, problem = panels(result), list(measurements.remarks), ""
    parts: list[Part] = [*measurements.remarks, grid_table(off_plateau, on_plateau), ""]
    try:
        fits = fitted(off_plateau, {"E": measurements.bayes}, CLUSTERS, settings.resamples, seed=0)
    except RunError as error:
        problem = text = (
            f"no law can be fitted to the {len(off_plateau)} runs of "
            f"{len(off_plateau) + len(on_plateau)} that left the plateau: {error}"
        )
    else:
        text = verdict(fits.fits["free"], fits.certainty, measurements, expected)
        undetermined = list(fits.certainty.not_determined)
        result |= {"not_determined": undetermined, "phi": fits.phi(), "law": fits.to_json()}
        drawn += law_panels(fits)
        notes += [f"not determined: {', '.join(undetermined)}"] if undetermined else []
        parts += [*report(fits), "", text]
    result |= {"verdict": text, "panels": [panel.plain() for panel in drawn]}
    shown(
        folder / "iso_depth.json", "iso_depth", result | {"figures": settings.figures.plain()},
        lambda: save_panels(folder / "figures", drawn, settings.figures, remarks=notes),
    )  # fmt: skip
    document_text = document(parts, settings.tables.format)
    if problem:
        print(document_text, flush=True)
        raise RunError(f"{problem}; {folder} has their losses")
    return f"{document_text}\n\n{folder}: iso_depth.json, runs.csv, plateau.csv, figures/"


def panels(result: dict[str, Any]) -> list[Panel]:
    """Loss by steps, a panel for each width and a curve for each r. There are no intervals: each is
    one run."""
    runs = result["runs"]
    levels = {"predicting zero": result["zero"], "least possible": result["bayes"]}
    steps = sorted({row["steps"] for row in runs})
    found = []
    for width in sorted({row["width"] for row in runs}):
        curves = []
        for r in sorted({row["r"] for row in runs}):
            losses = {
                row["steps"]: row["loss"] for row in runs if (row["r"], row["width"]) == (r, width)
            }
            values = without_interval(numbers([losses.get(step) for step in steps]))
            curves.append(Curve.of(f"r = {r:g}", "loops", values, number=r))
        axes = ("steps of training", "error / variance of y, mean over k")
        title, name = f"one effective depth, {width} wide", f"iso-depth-width-{width}"
        found.append(
            Panel(name, title, *axes, steps, curves, log="x", levels=levels, picture="iso-depth")
        )
    return found


def _plain(settings: IsoDepthSettings) -> dict[str, Any]:
    """The settings that the result depends on."""
    no_effect = ("folder", "jobs", "figures", "tables")
    return {key: value for key, value in asdict(settings).items() if key not in no_effect}
