"""What all measures share: runs grouped by their settings, predictions loop by loop, curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import torch

from reloop.conf.build import config_to_mapping, flatten
from reloop.conf.mistakes import ConfigError
from reloop.evaluation.bootstrap import Band, Floats, Interval
from reloop.experiments.named.results import Curve
from reloop.tasks import Prompts, Task
from reloop.tasks.linear import Linear, NoisyLinear
from reloop.training.run_folder.run import Run

_NOT_NAMED = ("seed", "device", "backend", "folder", "plugins", "scale", "recipe", "wandb")


class EstimateJson(TypedDict):
    """A number with its 90 % interval (None where not finite), and the training seeds in it."""

    mean: float | None
    low: float | None
    high: float | None
    seeds: int


class Group(NamedTuple):
    """Runs that differ in their seeds alone; `label` has the settings in which groups differ."""

    label: str
    family: str
    runs: list[Run]


def grouped(runs: Sequence[Run]) -> list[Group]:
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
        texts = [f"{_short(key)} = {first[key]}" for key in differing if _is_word(first[key])]
        words = [str(family)] if len(set(families)) > 1 or not texts else []
        label = ", ".join([*words, *texts])
        groups.append(Group(label, str(family), sorted(members, key=lambda run: run.config.seed)))
    return groups


def unrolled(run: Run, prompts: Prompts, loops: int, batch_size: int) -> Floats:
    """The predictions after each of these loops, [loops, B, n], on the CPU."""
    batches = [prompts[slice(i, i + batch_size)] for i in range(0, len(prompts), batch_size)]
    parts = []
    for batch in batches:
        steps = [prediction for _, prediction in run.model.unroll(batch, loops)]
        parts.append(torch.stack(steps[1:]).double())  # without the read-in
    return np.asarray(torch.cat(parts, dim=1).numpy(), np.float64)


def penalty(task: Task) -> float:
    """The λ of the ridge regression that is optimal for a task of dense linear functions, in the
    unit of its outputs; ConfigError for a task of other functions."""
    if isinstance(task, NoisyLinear):
        return task.noise_std**2
    if isinstance(task, Linear) and task.name != "sparse_linear":
        return 0.0
    raise ConfigError("task", f"must be one of dense linear functions, got {task.name}")


def resampled(counts: Floats, values: Floats) -> Floats:
    """Means over seeds and prompts of values [seeds, prompts, ...] under `counts` of the prompts
    [resamples, prompts], for each seed: [resamples, seeds, ...]."""
    means = [counts @ part.reshape(len(part), -1) / len(part) for part in values]
    return np.stack(means, axis=1).reshape(len(counts), len(values), *values.shape[2:])


def prompt_counts(prompts: int, resamples: int, seed: int) -> Floats:
    """How often each prompt is in each resample of the prompts, [resamples + 1, prompts]; the first
    has each once."""
    random = np.random.default_rng(seed)
    counts = random.multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples)
    return np.concatenate([np.ones((1, prompts)), counts])


def over_seeds(values: Floats, seed: int) -> Interval:
    """The mean over seeds of values [resamples + 1, seeds, ...], the first row of which is of the
    data as they are, and its 90 % interval: seeds are resampled too, a single one is not."""
    resamples, seeds = len(values) - 1, values.shape[1]
    random = np.random.default_rng(seed)
    chosen = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
    means = np.einsum("rs,rs...->r...", chosen, values[1:])
    low, high = np.percentile(means, (5, 95), axis=0)
    return Interval(values[0].mean(0), low, high)


def estimate(values: Floats, seed: int) -> EstimateJson:
    """The interval of one number, from values [resamples + 1, seeds], as plain values."""
    mean, low, high = (
        float(part) if math.isfinite(float(part)) else None for part in over_seeds(values, seed)
    )
    return {"mean": mean, "low": low, "high": high, "seeds": values.shape[1]}


def file_name(label: str) -> str:
    """A label as a part of a file's name."""
    return "".join(c if c.isalnum() else "_" for c in label)


def curve(name: str, label: str, kind: str, band: Band, b: int | None = None) -> Curve:
    """A line of a picture from means and intervals over the panel's x."""
    line = Curve(
        name=name, label=label, kind=kind, mean=band["mean"], low=band["low"], high=band["high"]
    )
    return line if b is None else Curve(**line, b=b)


def _named(run: Run) -> dict[str, object]:
    flat = flatten(config_to_mapping(run.config))
    return {
        key: value
        for key, value in flat.items()
        if key not in _NOT_NAMED and not key.startswith(("evaluation.", "schema_version"))
    }


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def _is_word(value: object) -> bool:
    return not isinstance(value, list | dict)
