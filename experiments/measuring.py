"""What a measurement is asked and what it answers; and what the measures of runs share: runs
grouped by their settings, predictions loop by loop, intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import numpy as np
import torch

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import load_run, snapshots_of
from looplab.evaluation.bootstrap import Band, Floats, Interval, crossed_means
from looplab.evaluation.evaluate_run import measured
from looplab.evaluation.kept import found, kept
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.panel import Panel
from looplab.tasks import Prompts, Task
from looplab.tasks.linear import Linear, NoisyLinear
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import IRRELEVANT, Run
from looplab.training.run_folder.sources import EVALUATED, sources_of

from .claims import Estimate, Measured, why_unfinished
from .statistics import Statistic, hierarchical_bootstrap, over_seeds


@dataclass(frozen=True)
class Request:
    """The settings of an experiment at a scale for its measurement (`settings` of its file, one
    mapping for each measurement to make), its finished runs, the folder of all runs, and the
    number of processes (None: one a core). With `stored_only` nothing is computed that takes long:
    only what is stored is read."""

    settings: Sequence[Mapping[str, Any]]
    runs: Sequence[Measured]
    folder: str
    processes: int | None = None
    stored_only: bool = False

    def only_settings(
        self, of: str, *decided: str, why: str = "its command decides it"
    ) -> dict[str, Any]:
        """The settings of what is measured once; ConfigError for several, and for one of those that
        are decided elsewhere."""
        if len(self.settings) != 1:
            raise ConfigError("settings", f"must be one for {of}, got {len(self.settings)}")
        return own_settings(self.settings[0], *decided, why=why)


def own_settings(
    entry: Mapping[str, Any], *decided: str, why: str = "its command decides it"
) -> dict[str, Any]:
    """An entry of the settings; ConfigError for one of those that are decided elsewhere."""
    for key in decided:
        if key in entry:
            raise ConfigError(key, f"is not for an experiment's file: {why}")
    return dict(entry)


@dataclass(frozen=True)
class Measurement:
    """The results by name, for claims (`Evidence.results`), pictures as numbers, and what is
    missing, a line each."""

    results: Mapping[str, Any] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    missing: Sequence[str] = ()


def measure_runs(name: str, request: Request) -> Measurement:
    """What the module of this name in of_runs/ measures in the request's runs: the stored result,
    or that of now. Raises ConfigError for runs that it cannot measure."""
    members = [run for run in request.runs if not why_unfinished(run)]
    if not members:
        return Measurement()
    runs = [load_run(run.path) for run in members]
    settings = members[0].config.evaluation
    key = {
        "runs": [
            [str(run.path.name), run.step, weights_digest(run.model), *snapshots_of(run.path)]
            for run in runs
        ],
        "settings": asdict(settings),
        "sources": sources_of(*EVALUATED, "probing", "experiments"),
    }
    folder = Path(request.folder) / "experiments" / "measures" / name

    def compute() -> tuple[Mapping[str, object], None]:
        result = import_module(f"{__package__}.{name}").measure(runs, settings)
        panels = [panel.plain() for panel in result["panels"]]
        return {"result": {**result, "panels": panels}}, None

    if request.stored_only and found(folder, "measure", key) is None:
        return Measurement(missing=(f"{name}: not measured yet of these runs",))
    try:
        result = kept(folder, "measure", key, compute)["result"]
    except Missing as lack:
        return Measurement(missing=(f"{name}: {lack}",))
    return Measurement({name: result}, [Panel.read(panel) for panel in result["panels"]])


_ENDS = (5, 95)  # percentiles of a 90 % interval
# Settings by which runs are not grouped.
_NOT_NAMED = ("schema_version", *(set(IRRELEVANT) - {"task.name", "model.family"}))


class Missing(Exception):
    """What runs lack for a measure: its message, one line."""


class EstimateJson(TypedDict):
    """A number with its 90 % interval (None where not finite), the training seeds in it, and what a
    reader of the interval must know."""

    mean: float | None
    low: float | None
    high: float | None
    seeds: int
    note: str


_Group = TypeVar("_Group")


class Groups(TypedDict, Generic[_Group]):
    """What a measure found of all groups of runs, and the pictures."""

    groups: list[_Group]
    panels: list[Panel]


class GroupsOnPrompts(Groups[_Group]):
    """The same, on so many prompts."""

    prompts: int


class SeedGroup(NamedTuple):
    """Runs that differ in their seeds alone; `label` has the settings in which groups differ."""

    label: str
    family: str
    runs: list[Run]


def grouped(runs: Sequence[Run]) -> list[SeedGroup]:
    """The runs by their settings, in the order of the first of each, by rising seeds in a group."""
    parts: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        parts.setdefault(tuple(sorted(map(repr, _named(run).items()))), []).append(run)
    firsts = [_named(members[0]) for members in parts.values()]
    families = [first["model.family"] for first in firsts]
    groups = []
    for members, first in zip(parts.values(), firsts, strict=True):
        family = first["model.family"]
        beside = [other for other in firsts if other["model.family"] == family]
        differing = [key for key in first if any(o.get(key) != first[key] for o in beside)]
        # A schedule that follows from another setting would say the same again.
        own = [key for key in differing if not key.startswith("curriculum.")]
        differing = own or differing
        texts = [
            f"{key.rpartition('.')[2]} = {first[key]}"
            for key in differing
            if not isinstance(first[key], list | dict)
        ]
        words = [str(family)] if len(set(families)) > 1 or not texts else []
        label = ", ".join([*words, *texts])
        groups.append(
            SeedGroup(label, str(family), sorted(members, key=lambda run: run.config.seed))
        )
    return groups


def unrolled(runs: Sequence[Run], prompts: Prompts, loops: int, batch_size: int) -> Floats:
    """The predictions of each run after each of these loops, [runs, loops, B, n], on the CPU."""
    batches = [prompts[slice(i, i + batch_size)] for i in range(0, len(prompts), batch_size)]
    found = []
    for run in runs:
        parts = []
        for batch in batches:
            steps = [prediction for _, prediction in run.model.unroll(batch, loops)]
            parts.append(torch.stack(steps[1:]).double())  # without the read-in
        found.append(torch.cat(parts, dim=1).numpy())
    return np.stack(found)


def bits_per_byte(run: Run) -> float:
    """Of the held-out text after b loops."""
    _, arrays = measured(run, run.config.evaluation)
    return float(arrays["held_out"][:, trained_loops(run.config) - 1].mean())


def penalty(task: Task) -> float:
    """The λ of the ridge regression that is optimal for a task of dense linear functions, in the
    unit of its outputs; ConfigError for a task of other functions."""
    if isinstance(task, NoisyLinear):
        return task.noise_std**2
    if isinstance(task, Linear) and task.name != "sparse_linear":
        return 0.0
    raise ConfigError("task", f"must be one of dense linear functions, got {task.name}")


def band(groups: Sequence[Floats], statistic: Statistic, settings: EvaluationConfig) -> Interval:
    """A curve of a picture: a statistic, [...], of the means of groups of trainings [seeds,
    prompts, ...], with its 90 % interval by resampling prompts and seeds (a single seed is not
    resampled). Of few seeds it is too narrow to decide by: `estimate`."""
    resampled = statistic(crossed_means(groups, settings.resamples, settings.seed))
    low, high = np.percentile(resampled, _ENDS, axis=0)
    return Interval(statistic([group.mean((0, 1)) for group in groups]), low, high)


def estimate(
    groups: Sequence[Floats],
    statistic: Statistic,
    settings: EvaluationConfig,
    *,
    log: bool = False,
    trained: Sequence[bool] | None = None,
) -> EstimateJson:
    """A number from groups [seeds, prompts, ...], with the interval of claims: see
    `hierarchical_bootstrap`, which has the arguments."""
    resamples, seed = settings.resamples, settings.seed
    found = hierarchical_bootstrap(
        groups, statistic, log=log, trained=trained, resamples=resamples, seed=seed
    )
    return _json(found)


def first_at_most(values: Floats, level: Floats | float) -> Floats:
    """Where values [..., places] first fall to a level (a number for all, or [...]), as a fraction
    of places, by lines between them: 0 is the first. nan where they never do."""
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


def over_runs(values: Sequence[float]) -> EstimateJson:
    """The mean of a number that is the runs' own, of no prompts; no interval for one run."""
    if len(values) < 2:
        return _json(Estimate(values[0], math.nan, math.nan, 1, note="one seed has no spread"))
    return _json(over_seeds(values))


def band_of(estimates: Sequence[EstimateJson]) -> Band:
    """Estimates one after another, as the values of a curve."""
    return {
        "mean": [each["mean"] for each in estimates],
        "low": [each["low"] for each in estimates],
        "high": [each["high"] for each in estimates],
    }


def _json(found: Estimate) -> EstimateJson:
    mean, low, high = (
        value if math.isfinite(value) else None for value in (found.mean, found.low, found.high)
    )
    return {"mean": mean, "low": low, "high": high, "seeds": found.seeds, "note": found.note}


def _named(run: Run) -> dict[str, object]:
    flat = flatten(config_to_mapping(run.config))
    return {key: value for key, value in flat.items() if not key.startswith(_NOT_NAMED)}
