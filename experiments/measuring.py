"""A measurement: its request and its answer, and the form that all questions on runs have.

Runs are `grouped` by their settings. The errors of each group are arrays [seeds, prompts, …].
Curves have a `band`, numbers the interval that decides (`estimate`), and each claim reads one
number.

    def measure(runs, settings):                   # what is kept
        return {"groups": [{"label": …, "growth": estimate([errors], settings)}]}

    def panels(found):                             # what is drawn of it, whenever it is looked at
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
from looplab.evaluation.groups import Group
from looplab.evaluation.kept import found, kept
from looplab.evaluation.load import load_run
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.measured import Measured
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

from .definition import module_of
from .evidence import why_unfinished

BESIDE_SOLVERS = ("loop, or step of a solver", SQUARED_ERROR)  # axes


def _plain(value: Any) -> Any:
    """A measure's result as JSON has it."""
    if isinstance(value, Estimate | Panel):
        return value.plain()
    if isinstance(value, Interval):  # JSON knows no infinity
        finite = (np.where(np.isfinite(part), part, np.nan) for part in value)
        return Interval(*finite).to_json()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(map(_plain, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Request:
    """The `settings` of an experiment's file at a scale (one mapping for each measurement to make),
    its finished runs, the folder of all runs, and the number of processes (None: one a core). With
    `stored_only` nothing is computed that takes long: only what is stored is read. `unfinished` are
    its other runs."""

    settings: Sequence[Mapping[str, Any]]
    runs: Sequence[Measured]
    folder: str
    processes: int | None = None
    stored_only: bool = False
    unfinished: Sequence[Config] = ()

    def only_settings(self, of: str) -> dict[str, Any]:
        """The settings of what is measured once; ConfigError for several."""
        if len(self.settings) != 1:
            raise ConfigError("settings", f"must be one for {of}, got {len(self.settings)}")
        return dict(self.settings[0])


@dataclass(frozen=True)
class Measurement:
    """The results by name, for claims (`Evidence.results`), pictures as numbers, and what is
    missing, a line each."""

    results: Mapping[str, Any] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    missing: Sequence[str] = ()


def measure_runs(name: str, request: Request) -> Measurement:
    """Return what the `measure` of the module of this name finds in the request's runs, as plain
    values: the stored result, or that of now; with the pictures that its `panels` makes of it.

    The settings of the experiment's file are its other arguments, but for `panels`, the beginnings
    of the names of those that are shown (all, if left out). A measure with an argument `unfinished`
    gets runs that learned nothing, too, and the configurations of unfinished ones. Raises
    ConfigError for runs that it cannot measure, and for other settings.
    """
    module = module_of(name)
    members = request.runs
    others = {}
    if "unfinished" in signature(module.measure).parameters:
        others["unfinished"] = request.unfinished
    else:
        members = [run for run in members if not why_unfinished(run)]
    given = request.only_settings(name) if request.settings else {}
    shown = tuple(given.pop("panels", ("",)))
    trains = request.runs or request.unfinished
    if not members and (trains or not request.settings):
        return Measurement()
    settings = members[0].config.evaluation if members else EvaluationConfig()
    try:
        runs = [load_run(run.path) for run in members]
        key = {
            "runs": [
                [str(run.path.name), run.step, weights_digest(run.model), *snapshots_of(run.path)]
                for run in runs
            ],
            "settings": settings.plain(),
            "given": given,
            "unfinished": [run_folder(config).path.name for config in others.get("unfinished", ())],
            "sources": measured_by(module, *(type(run.task) for run in runs)),
        }
        folder = Path(request.folder) / "experiments" / "measures" / name
        if request.stored_only and found(folder, "measure", key) is None:
            raise RunError("not measured yet" + " of these runs" * bool(request.runs))
        measure = partial(module.measure, runs, settings, **given, **others)
        stored = kept(folder, "measure", key, lambda: ({"result": _plain(measure())}, None))
    except RunError as lack:
        return Measurement(missing=(f"{name}: {lack}",))
    result = stored["result"]
    if "panels" in result:  # a user's file in the form of before
        new = "measure(runs, settings) returns numbers, and panels(found) makes pictures of them"
        print(f"{name}: its measure returns panels; now {new}: docs/guide/own.md", flush=True)
        panels = [Panel.read(panel) for panel in result["panels"]]
    else:
        panels = module.panels(result) if hasattr(module, "panels") else []
    return Measurement({name: result}, [each for each in panels if each.name.startswith(shown)])


def batches(prompts: Prompts, size: int) -> Iterator[Prompts]:
    """The prompts, so many at a time."""
    for first in range(0, len(prompts), size):
        yield prompts[first : first + size]


def unrolled(
    group: Group[Run], prompts: Prompts, settings: EvaluationConfig, loops: int | None = None
) -> Floats:
    """The predictions of each run after each of these loops (None: of its b), [runs, loops, B, n],
    on the CPU."""
    found = []
    for run in group.runs:
        parts = []
        for batch in batches(prompts, settings.batch_size):
            steps = [prediction for _, prediction in run.model.unroll(batch, loops or group.b)]
            parts.append(torch.stack(steps[1:]).double())  # without the read-in
        found.append(torch.cat(parts, dim=1).numpy())
    return np.stack(found)


def squared_errors(
    group: Group[Run], prompts: Prompts, settings: EvaluationConfig, loops: int | None = None
) -> Floats:
    """The squared errors of these predictions over the task's divisor, [runs, B, loops, n]."""
    models, task = unrolled(group, prompts, settings, loops), group.runs[0].task
    return np.square(models - prompts.ys.double().numpy()).swapaxes(1, 2) / task.divisor


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
    return Interval(*np.array([each[:3] if each else nothing for each in estimates]).T)


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


def looped_over_standard(
    errors: Mapping[tuple[str, Any], Floats], settings: EvaluationConfig
) -> dict[str, Estimate]:
    """Looped models' errors over those of the standard ones, where there are both, by what tells
    groups apart beside their family; `errors` are [seeds, prompts], by both."""
    return {
        str(key): ratio(errors["looped", key], values, settings)
        for (family, key), values in errors.items()
        if family == "standard" and ("looped", key) in errors
    }


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
    solvers: Mapping[str, tuple[str, Floats]] | None = None,
) -> dict[str, Any]:
    """What `by_loop` draws: a group's errors, [seeds, prompts, loops], as a band, and those of
    solvers by name, each with its label, [1, prompts, steps]."""
    return {
        "label": label,
        "family": group.family,
        "b": group.b,
        "band": band([errors], settings),
        "solvers": {
            solver: {"label": label, "band": band([values], settings)}
            for solver, (label, values) in (solvers or {}).items()
        },
    }


def by_loop(name: str, title: str, axes: tuple[str, str], found: Mapping[str, Any]) -> Panel:
    """A panel `name`-GROUP of what `bands_by_loop` found."""
    label = found["label"]
    curves = [Curve.of(label, found["family"], found["band"], name="model", b=found["b"])]
    for solver, each in found["solvers"].items():
        curves.append(Curve.of(each["label"], solver, each["band"], name=solver))
    loops = range(1, len(found["band"]["mean"]) + 1)
    return Panel(f"{name}-{file_name(label)}", title, *axes, loops, curves, log="y")


def first_at_most(values: Floats, level: Floats | float) -> Floats:
    """The place at which values [..., places] first fall to a level (a number for all, or [...]),
    by lines between places: 0 is the first. nan where they never do."""
    level = np.asarray(level)[..., None]
    below = values <= level
    after = np.maximum(below.argmax(-1), 1)[..., None]
    high, low = (np.take_along_axis(values, after - i, -1) for i in (1, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip((high - level) / (high - low), 0, 1)
    place = np.where(below[..., 0], 0.0, (after - 1 + share)[..., 0])
    return np.where(below.any(-1), place, np.nan)


def value_at(values: Floats, place: Floats) -> Floats:
    """Values [..., places] at a fraction of places, [...]; nan where that is."""
    before = np.clip(np.nan_to_num(place).astype(int), 0, values.shape[-1] - 2)
    low, high = (np.take_along_axis(values, (before + i)[..., None], -1)[..., 0] for i in (0, 1))
    return np.asarray(low + (place - before) * (high - low))
