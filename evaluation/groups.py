"""Runs that differ in their seed alone are one group: what curves, rows and claims are of.

for label, group in labelled(runs):
    errors = group.errors("model_at_b")        # [seeds, prompts, k]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.in_words import labels_of_settings, settings_key
from looplab.conf.schema import Config
from looplab.training.assemble import trained_loops

from .bootstrap import Floats


class HasConfig(Protocol):
    """A run, whatever is known of it beside its settings."""

    @property
    def config(self) -> Config:
        """Its settings."""
        ...


class WithErrors(HasConfig, Protocol):
    """A run with its errors prompt by prompt: an `EvaluatedRun`, or arrays that were kept."""

    @property
    def step(self) -> int:
        """The step of its training that was measured."""
        ...

    @property
    def remarks(self) -> Sequence[str]:
        """What its numbers must be read with."""
        ...

    def errors(self, name: str) -> Floats:
        """An array [prompts, …] of its evaluation; NotMeasured without it."""
        ...


R_co = TypeVar("R_co", bound=HasConfig, covariant=True)


@dataclass(frozen=True)
class Group(Generic[R_co]):
    """Runs that differ in their seed alone, by rising seeds; `config` is that of the first."""

    config: Config
    runs: Sequence[R_co]

    @property
    def family(self) -> str:
        """The family of the models."""
        return self.config.model.family

    @property
    def b(self) -> int:
        """The loops at the end of training, or the layers of a standard model."""
        return trained_loops(self.config)

    def errors(self: Group[WithErrors], name: str = "model_at_b") -> Floats:
        """An array of each run, [seeds, prompts, …], as far as the shortest reaches; NotMeasured if
        a run lacks it."""
        arrays = [run.errors(name) for run in self.runs]
        if arrays[0].ndim > 1:
            shortest = min(array.shape[1] for array in arrays)
            arrays = [array[:, :shortest] for array in arrays]
        return np.stack(arrays)


R = TypeVar("R", bound=HasConfig)


def grouped(runs: Iterable[R], varied: Sequence[str] = ()) -> list[Group[R]]:
    """Return the runs by their settings, in the order of the first of each.

    `varied` are as of `settings_key`. Runs that differ in nothing, not even their seed, are in
    groups of their own.
    """
    members: dict[tuple[str, int], list[R]] = {}
    copies: dict[tuple[str, int], int] = {}
    for run in runs:
        settings = settings_key(_flat(run.config), varied)
        seed = run.config.seed
        # A second run of these settings and this seed is no further seed.
        copy = copies.get((settings, seed), 0)
        copies[settings, seed] = copy + 1
        members.setdefault((settings, copy), []).append(run)
    groups = []
    for group in members.values():
        group.sort(key=lambda run: run.config.seed)
        groups.append(Group(group[0].config, group))
    return groups


def labels_of(groups: Sequence[Group[HasConfig]]) -> list[str]:
    """Return for each group in what it differs from the others, in words."""
    return labels_of_settings([_flat(group.config) for group in groups])


def labelled(runs: Iterable[R]) -> list[tuple[str, Group[R]]]:
    """Return the groups of the runs, each with its label."""
    groups = grouped(runs)
    return list(zip(labels_of(groups), groups, strict=True))


def _flat(config: Config) -> dict[str, object]:
    return flatten(config_to_mapping(config))
