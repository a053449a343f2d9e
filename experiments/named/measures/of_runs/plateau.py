"""Training step by step, from the runs' snapshots: the error, the attention to the previous token,
and how parallel the states of different queries are (arXiv 2506.13688).

result = measure(runs, EvaluationConfig(prompts=256))    # runs with training.snapshots=[0,50,…]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import EvaluationConfig
from reloop.evaluation.bootstrap import Floats
from reloop.experiments.named.curves import curve, panel
from reloop.experiments.named.results import Panel
from reloop.experiments.plateau import LEAVES
from reloop.probing.attention import uniform_share
from reloop.training.run_folder.run import Run

from .common import EstimateJson, band, estimate, first_at_most, value_at
from .snapshots import QUANTITIES, Trajectory, trajectories

_PLATEAU = 0.1  # of the error's fall: up to there a model is on the plateau
_ERROR, _ATTENTION, _COSINE, _ZERO = range(len(QUANTITIES))
_AXES = {
    _ERROR: "squared error over the variance of y",
    _ATTENTION: "attention at y to its own x",
    _COSINE: "cosine between states of different queries",
}


class PlateauGroup(TypedDict):
    """Runs that differ in their seeds alone. `left_at`: the step at which the error, mean over all
    numbers of examples, is half-way from that of predicting zero to the least of all groups.
    `attention_done`: of the rise of the attention to the previous token, the share that is done
    when a tenth of the error's fall is. `parallel`: the mean cosine between the states of different
    queries at that time."""

    label: str
    optimizer: str
    left_at: EstimateJson
    attention_done: EstimateJson
    parallel: EstimateJson


class PlateauResult(TypedDict):
    """All groups; `muon_over_adam`, the step at which Muon's runs leave the plateau over that of
    Adam's, None without both; and the pictures."""

    prompts: int
    steps: list[int]
    groups: list[PlateauGroup]
    muon_over_adam: EstimateJson | None
    panels: list[Panel]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> PlateauResult:
    """Measure every snapshot of the runs; errors as `trajectories`."""
    return compare(trajectories(runs, settings), runs[0].config.task.points, settings)


def compare(found: Sequence[Trajectory], points: int, settings: EvaluationConfig) -> PlateauResult:
    """The quantities of groups whose prompts have so many points. ConfigError for several groups of
    one optimiser."""
    by_optimizer = {each.optimizer: each for each in found}
    if len(by_optimizer) < len(found):
        raise ConfigError("training.optimizer", "must differ between the groups of runs")
    least = min(float(each.values[..., _ERROR].mean((0, 1)).min()) for each in found)
    both = [by_optimizer[name] for name in ("muon", "adam") if name in by_optimizer]
    return {
        "prompts": settings.prompts,
        "steps": list(found[0].steps),
        "groups": [_result(each, least, settings) for each in found],
        "muon_over_adam": _left_ratio(both, least, settings) if len(both) == 2 else None,
        "panels": _panels(found, least, uniform_share(points), settings),
    }


def _result(each: Trajectory, least: float, settings: EvaluationConfig) -> PlateauGroup:
    def at_end(values: Floats, means: Floats) -> Floats:
        """Values at the end of the plateau."""
        return value_at(values, _place(means, _PLATEAU, least))

    def attention_done(means: Sequence[Floats]) -> Floats:
        attention = means[0][..., _ATTENTION]
        start, end = attention[..., 0], attention[..., -1]
        return (at_end(attention, means[0]) - start) / (end - start)

    def left_at(means: Sequence[Floats]) -> Floats:
        return _step(each, means[0], least)

    def parallel(means: Sequence[Floats]) -> Floats:
        return at_end(means[0][..., _COSINE], means[0])

    return {
        "label": each.group.label,
        "optimizer": each.optimizer,
        "left_at": estimate([each.values], left_at, settings, log=True),
        "attention_done": estimate([each.values], attention_done, settings),
        "parallel": estimate([each.values], parallel, settings),
    }


def _left_ratio(
    both: Sequence[Trajectory], least: float, settings: EvaluationConfig
) -> EstimateJson:
    """The step at which the first leaves the plateau over that of the second."""

    def ratio(means: Sequence[Floats]) -> Floats:
        first, second = (_step(e, mean, least) for e, mean in zip(both, means, strict=True))
        with np.errstate(invalid="ignore", divide="ignore"):  # off the plateau at the first step
            return first / second

    return estimate([each.values for each in both], ratio, settings, log=True)


def _step(each: Trajectory, means: Floats, least: float) -> Floats:
    """The step at which the plateau is left, [...]; nan where it never is."""
    return np.interp(_place(means, LEAVES, least), np.arange(len(each.steps)), each.steps)


def _place(means: Floats, share: float, least: float) -> Floats:
    """Where a share of the error's fall, from that of predicting zero to the least, is done, as a
    place among the steps, [...]."""
    zero = means[..., 0, _ZERO]
    return first_at_most(means[..., _ERROR], zero - share * (zero - least))


def _panels(
    found: Sequence[Trajectory], least: float, uniform: float, settings: EvaluationConfig
) -> list[Panel]:
    """Each quantity by the step."""
    zero = float(found[0].values[..., _ZERO].mean())
    levels = {
        _ERROR: {"half of the fall": zero - LEAVES * (zero - least)},
        _ATTENTION: {"the same attention to all tokens": uniform},
        _COSINE: {},
    }
    return [
        panel(
            f"plateau-{QUANTITIES[quantity]}",
            "training step by step",
            ("training step", axis),
            found[0].steps,
            [
                curve(
                    each.optimizer.capitalize(),
                    each.optimizer,
                    band([each.values[..., quantity]], lambda means: means[0], settings),
                )
                for each in found
            ],
            log="y" if quantity == _ERROR else "",
            levels=levels[quantity],
        )
        for quantity, axis in _AXES.items()
    ]
