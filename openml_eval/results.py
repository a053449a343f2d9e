"""The result of leave-one-out as plain values: the content of openml.json."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from .run_settings import RunSettings


class Accuracy(TypedDict):
    """A mean with its 90 % interval or, under the reference's protocol and as published, with its
    population standard deviation over draws of contexts."""

    mean: float
    low: NotRequired[float]
    high: NotRequired[float]
    std: NotRequired[float]


class RunEntry(TypedDict):
    """One trained run; `seconds` of training are None if its folder does not say."""

    path: str
    seed: int
    step: int
    seconds: float | None
    remarks: list[str]


class ModelEntry(TypedDict):
    """One family on one table: `accuracy`, with labels `as_is`, and `swapped`."""

    runs: list[RunEntry]
    accuracy: Accuracy
    as_is: Accuracy
    swapped: Accuracy
    beats_majority: NotRequired[bool]
    published: Accuracy | None


class TableEntry(TypedDict):
    """One held-out table: models by family, and solvers by name."""

    name: str
    label: str
    openml_id: int | None
    rows: int
    features: int
    counts: list[int]
    majority_share: float
    sha256: str
    remarks: list[str]
    models: dict[str, ModelEntry]
    solvers: dict[str, Accuracy]


class Summary(TypedDict):
    """All tables; the solvers' descriptions; for each family the number of tables on which the low
    end of its interval is above the share of the larger class, and the number of tables."""

    tables: list[TableEntry]
    solvers: dict[str, str]
    beats_majority: dict[str, list[int]]


class Result(Summary):
    """The content of openml.json, where the settings are plain values and without `jobs`."""

    settings: RunSettings
    evaluation_seeds: int
    k: int
    scale: str
    resamples: int
    seed: int
    failed: list[str]
