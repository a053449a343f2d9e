"""The result of a probing as plain values: the content of probing.json."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from reloop.evaluation.bootstrap import Band
from reloop.evaluation.results import OfRun

from .published import Published


class ByLength(TypedDict):
    """Mean errors and their 90 % intervals, by layer and length."""

    mean: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]


class Learning(TypedDict):
    """The error in training over the target's variance, by part of the training (which ends at
    step `until_step`) and layer."""

    until_step: list[int]
    error: list[list[float]]


class ControlLeast(TypedDict):
    """The control's least error over the layers, with its 90 % interval."""

    layer: int
    mean: float
    low: float
    high: float


class ProbedTarget(TypedDict):
    """The errors of one target's probes by layer, mean over lengths, and by layer and length; those
    of the linear probes and of the control; 1 − R² by layer and length."""

    label: str
    lengths: list[int]
    variance: list[float]
    error: Band
    seed_spread: list[float | None]
    by_length: ByLength
    unexplained: list[list[float | None]]
    learning: Learning
    linear: Band
    linear_unexplained: list[list[float | None]]
    control: NotRequired[Band]
    control_least: NotRequired[ControlLeast]
    minus_control: NotRequired[Band]
    published: NotRequired[Published]


class Findings(OfRun):
    """What the probes of a run find, by target."""

    targets: dict[str, ProbedTarget]


class Settings(TypedDict):
    """The settings of a probing (`ProbingSettings`) that are read again."""

    protocol: Literal["paper", "reference"]
    prompts: int
    steps: int


class Probing(Findings):
    """The content of probing.json."""

    settings: Settings
    key: str
