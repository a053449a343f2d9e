"""The results of this room as plain values, the content of probing.json and of dynamics.json; and
the probe errors printed in a notebook of arXiv 2311.12424's code, for runs of the same settings.

for entry in published(run.config, REFERENCE, layers=21):
    print(entry["target"], entry["label"], entry["mean"][20], entry["source"])
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Band
from looplab.evaluation.panel import padded
from looplab.evaluation.published import matching
from looplab.evaluation.results import OfRun

from .protocols import Protocol

_PATH = Path(__file__).with_name("published.json")


class ProbedTarget(TypedDict):
    """The errors of one target's probes: `error` by layer, mean over `lengths`, and `by_length`,
    rows of layers; with their 90 % intervals over prompts and the `seed_spread` over probe seeds.

    `variance` is the target's own, by length; `unexplained` is 1 − R² by layer and length. `linear`
    are the linear probes, `control` those trained with w = 1, whose least error over the layers
    (`control_least`) `minus_control` is less, paired by prompt. `learning` has the error in
    training over the target's variance, by part of the training, which ends at step `until_step`,
    and layer.
    """

    label: str
    lengths: list[int]
    variance: list[float]
    error: Band
    seed_spread: list[float | None]
    by_length: dict[str, list[list[float]]]
    unexplained: list[list[float | None]]
    learning: dict[str, Any]
    linear: Band
    linear_unexplained: list[list[float | None]]
    control: NotRequired[Band]
    control_least: NotRequired[dict[str, float]]
    minus_control: NotRequired[Band]
    published: NotRequired[dict[str, Any]]


class Probing(OfRun):
    """The content of probing.json; `settings` are those of `ProbingSettings` that bear on it."""

    targets: dict[str, ProbedTarget]
    settings: dict[str, Any]
    key: str


class Dynamics(OfRun):
    """The content of dynamics.json. Each part has its `loop`s (of a standard model, its layers; 0
    is the read-in) and bands, means over prompts.

    `norm` is a token's before (`raw`) and after (`stream`) the final norm; `change` is ‖Yₜ − Yₜ₋₁‖,
    `absolute` and `relative` to ‖Yₜ‖; `cosines` are those between all increments, row by row, of
    `consecutive` ones and, mean over all `pairs` of different ones, None if no pair has a cosine;
    `effective_rank` is that of the states at the x tokens. Where all loops are the same, `residual`
    is ‖M(Yₜ) − Yₜ‖ with its spread `over_prompts` and the share `at_rest`, and `contraction` has
    the Jacobian's factors at `loop` and the share of prompts with a spectral radius `below_one`.
    """

    loops: int
    prompts: int
    norm: dict[str, Any]
    change: dict[str, Any]
    cosines: dict[str, Any]
    effective_rank: dict[str, Any]
    residual: NotRequired[dict[str, Any]]
    contraction: NotRequired[dict[str, Any]]


def title(result: Probing | Dynamics, prompts: int) -> str:
    """What stands above each picture: model, task, prompts and the meaning of the bands."""
    task = result["task"].replace("_", " ")
    return f"{result['family']} on {task}, d = {result['dims']}, {prompts} prompts, 90 % bands"


def published(config: Config, protocol: Protocol, layers: int) -> list[dict[str, Any]]:
    """The printed curves that a run's errors at `layers` layers (or loops and the read-in) can be
    compared with, at most one for each `target`: in `mean` the probes' errors over the protocol's
    divisor, mean over lengths, from the read-in on, None beyond the last one printed.

    They were measured on one batch of `prompts`, as large as those that the probes were trained on
    for `steps` steps, and have no interval; `training_steps` are the probed model's, `rounding`
    says how many digits are printed. The protocol, the task (name, dims, points, settings, an
    endless set of prompts) and the model's shape, b and T must match; the steps need not.
    """
    divisor = protocol.error_divisor(config.task.dims)
    return [
        {
            "target": curve["target"],
            "label": curve["label"],
            "mean": padded([value / divisor for value in curve["mean"][:layers]], layers),
            **{key: result["protocol"][key] for key in ("steps", "prompts", "training_steps")},
            "rounding": curve["rounding"],
            "source": result["source"],
        }
        for curve, result in matching(_PATH, config)
        if result["protocol"]["name"] == protocol.name
    ]
