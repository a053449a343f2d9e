"""The result of a probing as plain values: the content of probing.json; and the probe errors
printed in a notebook of arXiv 2311.12424's code, for runs of the same settings.

for entry in published(run.config, REFERENCE, layers=21):
    print(entry["target"], entry["label"], entry["mean"][20], entry["source"])
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Band
from looplab.evaluation.published import matching
from looplab.evaluation.results import OfRun

from .protocols import Protocol

_PATH = Path(__file__).with_name("published.json")


class Published(TypedDict):
    """One printed curve: the probes' errors over the protocol's divisor, mean over lengths, entry t
    at layer (or loop) t, entry 0 at the read-in; None beyond the last one printed.

    They were measured on one batch of `prompts`, as large as those that the probes were trained on
    for `steps` steps, and have no interval. `training_steps` are the probed model's; `rounding`
    says how many digits are printed.
    """

    target: str
    label: str
    mean: list[float | None]
    steps: int
    prompts: int
    training_steps: int
    rounding: str
    source: str


def published(config: Config, protocol: Protocol, layers: int) -> list[Published]:
    """The printed curves that a run's errors at `layers` layers (or loops and the read-in) can be
    compared with, at most one for each target.

    The protocol, the task (name, dims, points, settings, an endless set of prompts) and the model's
    shape, b and T must match. The steps of the probes and of the model need not.
    """
    divisor = protocol.error_divisor(config.task.dims)
    return [
        _entry(curve, result, divisor, layers)
        for curve, result in matching(_PATH, config)
        if result["protocol"]["name"] == protocol.name
    ]


def _entry(
    curve: Mapping[str, Any], result: Mapping[str, Any], divisor: float, layers: int
) -> Published:
    means = [value / divisor for value in curve["mean"][:layers]]
    protocol = result["protocol"]
    return {
        "target": curve["target"],
        "label": curve["label"],
        "mean": [*means, *[None] * (layers - len(means))],
        "steps": protocol["steps"],
        "prompts": protocol["prompts"],
        "training_steps": protocol["training_steps"],
        "rounding": curve["rounding"],
        "source": result["source"],
    }


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
