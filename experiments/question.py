"""A question: what is asked for (`Request`), its `Answer`, and the form that all on runs have.

Runs are `grouped` by their settings. The errors of each group are arrays [seeds, prompts, …].
Curves have a `band`, numbers the interval that decides (`estimate`), and each claim reads one
number.

    def measure(runs, settings):                   # what is kept
        return {"groups": [{"label": …, "growth": estimate([errors], settings)}]}

    def panels(result):                            # what is drawn of it, whenever it is looked at
        return [Panel("growth", …)]
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.evaluator import weights_digest
from looplab.evaluation.groups import Group
from looplab.evaluation.kept import found, kept
from looplab.evaluation.load import load_run
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import (
    Estimate,
    Statistic,
    hierarchical_bootstrap,
    interval_over_seeds,
    over_seeds,
    ratio_of,
)
from looplab.show.panel import Curve, Panel, file_name
from looplab.tasks import Prompts
from looplab.training.run_folder.checkpoint import snapshots_of
from looplab.training.run_folder.run import Run, run_folder
from looplab.training.run_folder.sources import measured_by
from looplab.training.validation import evaluation_prompts

from .definition import module_of
from .evidence import why_unfinished

Result = dict[str, Any]  # what a question on runs found, or a part of it, as JSON has it
BESIDE_SOLVERS = ("loop, or step of a solver", SQUARED_ERROR)  # axes


def _plain(value: Any) -> Any:
    """A measure's result as JSON has it."""
    if isinstance(value, Estimate | Panel):
        return value.plain()
    if isinstance(value, Interval):  # JSON knows no infinity
        finite = (np.where(np.isfinite(ends), ends, np.nan) for ends in value)
        return Interval(*finite).to_json()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value


@dataclass(frozen=True)
class Request:
    """The `settings` of an experiment's file at a scale (one mapping for each thing to measure),
    its finished runs, the folder of all runs, and the number of processes (None: one a core). With
    `stored_only` nothing is computed that takes long: only what is stored is read. `unfinished` are
    its other runs."""

    settings: Sequence[Mapping[str, Any]]
    runs: Sequence[EvaluatedRun]
    folder: str
    processes: int | None = None
    stored_only: bool = False
    unfinished: Sequence[Config] = ()

    def only_settings(self, name: str) -> dict[str, Any]:
        """The settings of what is measured once; ConfigError for several."""
        if len(self.settings) != 1:
            raise ConfigError("settings", f"must be one for {name}, got {len(self.settings)}")
        return dict(self.settings[0])


@dataclass(frozen=True)
class Answer:
    """The results by name, for claims (`Evidence.results`), pictures as numbers, and what is
    missing, a line each."""

    results: Mapping[str, Any] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    missing: Sequence[str] = ()


def answer_of(name: str, request: Request) -> Answer:
    """Return what the `measure` of the module of this name finds in the request's runs, as plain
    values: the stored result, or that of now; with the pictures that its `panels` makes of it.

    The settings of the experiment's file are its other arguments, but for `panels`: the beginnings
    of the names of those that are shown, all if it is left out. A measure with an argument
    `unfinished` gets runs that learned nothing, too, and the configurations of unfinished ones.
    Raises ConfigError for runs that it cannot measure, and for other settings."""
    module = module_of(name)
    takes_unfinished = "unfinished" in signature(module.measure).parameters
    members = [run for run in request.runs if takes_unfinished or not why_unfinished(run)]
    given = request.only_settings(name) if request.settings else {}
    shown = tuple(given.pop("panels", ("",)))
    trains = request.runs or request.unfinished
    if not members and (trains or not request.settings):
        return Answer()
    settings = members[0].config.evaluation if members else EvaluationConfig()
    unfinished = request.unfinished if takes_unfinished else ()
    also = {"unfinished": unfinished} if takes_unfinished else {}
    try:
        runs = [load_run(run.path) for run in members]
        # All that the result depends on: with another key it is measured anew.
        key = {
            "runs": [_identity(run) for run in runs],
            "settings": settings.plain(),
            "given": given,
            "unfinished": [run_folder(config).path.name for config in unfinished],
            "sources": measured_by(module, *(type(run.task) for run in runs)),
        }
        folder = Path(request.folder) / "experiments" / "measures" / name
        if request.stored_only and found(folder, "measure", key) is None:
            raise RunError("not measured yet" + " of these runs" * bool(request.runs))
        measure = partial(module.measure, runs, settings, **given, **also)
        stored = kept(folder, "measure", key, lambda: ({"result": _plain(measure())}, None))
    except RunError as error:
        return Answer(missing=(f"{name}: {error}",))
    result = stored["result"]
    panels = []
    if "panels" in result:  # a user's file in the form of before
        new = "measure(runs, settings) returns numbers, and panels(found) makes pictures of them"
        print(f"{name}: its measure returns panels; now {new}: docs/guide/own.md", flush=True)
        panels = [Panel.read(panel) for panel in result["panels"]]
    elif hasattr(module, "panels"):
        panels = module.panels(result)
    return Answer({name: result}, [panel for panel in panels if panel.name.startswith(shown)])


def _identity(run: Run) -> list[Any]:
    """What tells a run and its state from others, in the key of a kept result."""
    return [run.path.name, run.step, weights_digest(run.model), *snapshots_of(run.path)]


def prompts_of(run: Run, settings: EvaluationConfig, others: int = 0) -> Prompts:
    """Prompts of a run's task, as long as in training: those of the evaluation, or `others` of
    another seed."""
    points = run.config.task.points
    return evaluation_prompts(run.task, settings.prompts, points, settings.seed + others)


def batches(prompts: Prompts, size: int) -> Iterator[Prompts]:
    """The prompts, so many at a time."""
    for first in range(0, len(prompts), size):
        yield prompts[first : first + size]


def unrolled(
    group: Group[Run], prompts: Prompts, settings: EvaluationConfig, loops: int | None = None
) -> Floats:
    """The predictions of each run after each of these loops (None: of its b), [runs, loops, B, n],
    on the CPU."""
    by_run = []
    for run in group.runs:
        by_batch = []
        for batch in batches(prompts, settings.batch_size):
            # A (state, prediction [batch, n]) for the read-in and for each loop.
            states = run.model.unroll(batch, loops or group.b)
            by_loop = [prediction for _, prediction in states]
            by_batch.append(torch.stack(by_loop[1:]).double())
        by_run.append(torch.cat(by_batch, dim=1).numpy())
    return np.stack(by_run)


def squared_errors(
    group: Group[Run], prompts: Prompts, settings: EvaluationConfig, loops: int | None = None
) -> Floats:
    """The squared errors of these predictions over the task's divisor, [runs, B, loops, n]."""
    residuals = unrolled(group, prompts, settings, loops) - prompts.ys.double().numpy()
    return np.square(residuals).swapaxes(1, 2) / group.runs[0].task.divisor


def band(
    groups: Sequence[Floats],
    settings: EvaluationConfig,
    statistic: Statistic = itemgetter(0),
    *,
    log: bool = True,
) -> Interval:
    """A curve of a picture: a statistic, [...], with the intervals of `interval_over_seeds`; by
    default the first group's mean error, which is positive."""
    return interval_over_seeds(
        groups, statistic, log=log, resamples=settings.resamples, seed=settings.seed
    )


def band_of(estimates: Sequence[Estimate | None]) -> Interval:
    """Estimates one after another, as the values of a curve; None: there is none."""
    nothing = (math.nan,) * 3
    rows = [nothing if estimate is None else estimate[:3] for estimate in estimates]
    return Interval(*np.array(rows).T)


def estimate(
    groups: Sequence[Floats],
    settings: EvaluationConfig,
    statistic: Statistic = itemgetter(0),
    **options: Any,
) -> Estimate:
    """A number from groups [seeds, prompts, ...], with the interval of claims: see
    `hierarchical_bootstrap`, which has the other arguments (`log`, `trained`)."""
    return hierarchical_bootstrap(
        groups, statistic, resamples=settings.resamples, seed=settings.seed, **options
    )


def ratio(
    above: Floats,
    below: Floats,
    settings: EvaluationConfig,
    trained: Sequence[bool] | None = None,
) -> Estimate:
    """The mean of values [seeds, prompts] over that of others, as `ratio_of` has it."""
    return ratio_of([above, below], trained, resamples=settings.resamples, seed=settings.seed)


def paired_ratio(means: Sequence[Floats]) -> Floats:
    """A statistic: the ratio of two values of the same runs and prompts, [..., 2]."""
    return np.asarray(means[0][..., 0] / means[0][..., 1])


def looped_over_standard(
    errors: Mapping[tuple[str, Any], Floats], settings: EvaluationConfig
) -> dict[str, Estimate]:
    """Looped models' errors over those of the standard ones, where there are both, by what tells
    groups apart beside their family; `errors` are [seeds, prompts], by both."""
    ratios = {}
    for (family, key), values in errors.items():
        if family == "standard" and ("looped", key) in errors:
            ratios[str(key)] = ratio(errors["looped", key], values, settings)
    return ratios


def over_runs(values: Sequence[float]) -> Estimate:
    """The mean of a number that is the runs' own, of no prompts; no interval for one run."""
    if len(values) < 2:
        return Estimate(values[0], math.nan, math.nan, 1, note="one seed has no spread")
    return over_seeds(values)


def bands_by_loop(
    label: str,
    group: Group[Run],
    errors: Floats,
    settings: EvaluationConfig,
    solvers: Mapping[str, tuple[str, Floats]] = {},
) -> Result:
    """What `by_loop` draws: a group's errors, [seeds, prompts, loops], as a band, and those of
    solvers by name, each with its label, [1, prompts, steps]."""
    solver_bands = {}
    for solver, (solver_label, values) in solvers.items():
        solver_bands[solver] = {"label": solver_label, "band": band([values], settings)}
    return {
        "label": label,
        "family": group.family,
        "b": group.b,
        "band": band([errors], settings),
        "solvers": solver_bands,
    }


def by_loop(name: str, title: str, axes: tuple[str, str], bands: Result) -> Panel:
    """A panel `name`-GROUP of what `bands_by_loop` returned."""
    label = bands["label"]
    curves = [Curve.of(label, bands["family"], bands["band"], name="model", b=bands["b"])]
    for kind, solver in bands["solvers"].items():
        curves.append(Curve.of(solver["label"], kind, solver["band"], name=kind))
    loops = range(1, len(bands["band"]["mean"]) + 1)
    return Panel(f"{name}-{file_name(label)}", title, *axes, loops, curves, log="y")


def first_at_most(values: Floats, level: Floats | float) -> Floats:
    """The index at which values [..., n] first fall to a level (a number for all, or [...]), by
    lines between indices. nan where they never do."""
    level = np.asarray(level)[..., None]
    is_below = values <= level
    # argmax: the first that is; of a single value there is no line.
    after = np.clip(is_below.argmax(-1), min(1, values.shape[-1] - 1), None)[..., None]
    high = np.take_along_axis(values, np.maximum(after - 1, 0), -1)
    low = np.take_along_axis(values, after, -1)
    # The line from (after - 1, high) to (after, low) meets the level a share of the way.
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip((high - level) / (high - low), 0, 1)
    crossing = (after - 1 + share)[..., 0]
    index = np.where(is_below[..., 0], 0.0, crossing)
    return np.where(is_below.any(-1), index, np.nan)


def value_at(values: Floats, index: Floats) -> Floats:
    """Values [..., n] at an index between two, by the line between them, [...]; nan where that
    is."""
    before = np.clip(np.nan_to_num(index).astype(int), 0, values.shape[-1] - 2)[..., None]
    low = np.take_along_axis(values, before, -1)[..., 0]
    high = np.take_along_axis(values, before + 1, -1)[..., 0]
    return np.asarray(low + (index - before[..., 0]) * (high - low))


def per_doubling(values: Floats, numbers: Floats) -> Floats:
    """The factors between neighbours of values [..., numbers] for each doubling of the numbers."""
    return np.asarray(2 ** (np.diff(np.log2(values)) / np.diff(np.log2(numbers))))
