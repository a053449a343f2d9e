"""Training step by step, from the runs' snapshots: the error, the attention to the previous token,
and how parallel the states of different queries are (arXiv 2506.13688).

result = measure(runs, EvaluationConfig(prompts=256))    # runs with training.snapshots=[0,50,…]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import load_run, snapshots_of
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Curve, Panel
from looplab.models import Model
from looplab.probing.attention import recorded_shares, uniform_share
from looplab.tasks import Prompts
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import check_same_prompts, group, measured_groups, over_examples
from .measuring import (
    SQUARED_ERROR,
    Missing,
    SeedGroup,
    band,
    batches,
    estimate,
    first_at_most,
    grouped,
    value_at,
)
from .statistics import hierarchical_bootstrap

LEAVES = 0.5  # the end of the plateau, from 0, the Bayes error, to 1, that of predicting 0
QUANTITIES = ("error", "attention", "cosine", "zero")
_ERROR, _ATTENTION, _COSINE, _ZERO = range(len(QUANTITIES))
_LEAST = 3  # snapshots
_PLATEAU = 0.1  # of the error's fall: up to there a model is on the plateau
_SOURCE = "arXiv 2506.13688"
_SHIFTS = ("skewed_covariance", "half_subspace", "random_orthants", "scaled_x_2")


def has_left_plateau(loss: float, bayes: float, zero: float) -> bool:
    """Whether a model with this mean error over all numbers of examples uses its examples: its
    excess over the Bayes error is at most half of that of predicting 0."""
    return loss <= highest(bayes, zero)


def highest(bayes: float, zero: float) -> float:
    """The highest error that counts as off the plateau."""
    return bayes + LEAVES * (zero - bayes)


def bayes_error(dims: int, points: int) -> float:
    """The expected error of the best predictor of linear functions without noise, over the variance
    of y, averaged over 0 … points - 1 examples.

    k examples determine the weights w ~ N(0, I) in k directions and leave dims - k free: the error
    is (dims - k) / dims of y's variance, 0 for k >= dims (Garg et al. 2022).
    """
    return sum(max(dims - k, 0) for k in range(points)) / (dims * points)


class Trajectory(NamedTuple):
    """What the snapshots of a group show at `steps`: `values` [seeds, prompts, steps, 4], in the
    order of `QUANTITIES`; `zero` is the error of predicting zero, the same at all steps. Errors are
    means over all numbers of examples, over the variance of y."""

    group: SeedGroup
    steps: Sequence[int]
    values: Floats

    @property
    def optimizer(self) -> str:
        """muon or adam, with or without decay of the weights."""
        return self.group.config.training.optimizer.removesuffix("w")


def trajectories(runs: Sequence[Run], settings: EvaluationConfig) -> list[Trajectory]:
    """Measure the snapshots of the steps that all runs have, on `settings.prompts` prompts.
    ConfigError for runs of several tasks; Missing for runs without three common steps."""
    if len({(run.task, run.config.task.points) for run in runs}) > 1:
        raise ConfigError("task", "must be the same in all runs")
    steps, points = _common_steps(runs), runs[0].config.task.points
    prompts = evaluation_prompts(runs[0].task, settings.prompts, points, settings.seed)
    return [
        Trajectory(
            group, steps, np.stack([_of_run(run, steps, prompts, settings) for run in group.runs])
        )
        for group in grouped(runs)
    ]


def _common_steps(runs: Sequence[Run]) -> list[int]:
    kept = {run.path: set(snapshots_of(run.path)) for run in runs}
    common = sorted(set.intersection(*kept.values()))
    if len(common) < _LEAST:
        fewest = min(kept, key=lambda path: len(kept[path]))
        raise Missing(
            f"{fewest} has {len(kept[fewest])} snapshots, all runs together {len(common)}: train "
            "it again with training.snapshots and again=true"
        )
    return common


def _of_run(run: Run, steps: Sequence[int], prompts: Prompts, settings: EvaluationConfig) -> Floats:
    """[prompts, steps, 4] of one run. The head is the one that attends most to the previous token
    after the last step, in the loop where it does."""
    folders = snapshots_of(run.path)
    loops, head, found = trained_loops(run.config), -1, list[Floats]()
    for step in reversed(steps):
        model = load_run(folders[step]).model
        parts = [_measured(model, batch, loops) for batch in batches(prompts, settings.batch_size)]
        others, shares = (torch.cat(part, dim=-1) for part in zip(*parts, strict=True))
        head = int(shares.mean(-1).argmax()) if head < 0 else head
        error, cosine, zero = others
        rows = torch.stack((error, shares[head], cosine, zero), dim=-1)
        rows[:, [0, 3]] /= run.task.divisor
        found.insert(0, rows.double().numpy())
    return np.stack(found, axis=1)


def _measured(model: Model, prompts: Prompts, loops: int) -> tuple[Tensor, Tensor]:
    """The squared error, the mean cosine between the states of different queries after the last
    loop, and the squared error of predicting zero, [3, B]; and the attention to the previous token
    of every head in every loop, [loops · heads, B]."""
    with recorded_shares(model) as shares:
        *_, (state, predictions) = model.unroll(prompts, loops)
    if not shares:
        raise ConfigError("model", "must have softmax attention")
    error = (predictions - prompts.ys).square().mean(-1)
    units = F.normalize(state.stream[:, ::2].float(), dim=-1)
    count = units.shape[1]
    # |Σ u|² is the sum of all cosines, of which the own ones are 1.
    cosine = (units.sum(1).square().sum(-1) - count) / (count * (count - 1))
    return torch.stack((error, cosine, prompts.ys.square().mean(-1))), torch.cat(shares)


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Measure every snapshot of the runs; errors as `trajectories`, result as `compare`."""
    return compare(trajectories(runs, settings), runs[0].config.task.points, settings)


def compare(found: Sequence[Trajectory], points: int, settings: EvaluationConfig) -> dict[str, Any]:
    """The quantities of groups whose prompts have so many points. ConfigError for several groups of
    one optimiser.

    Each of the `groups` has its `optimizer` and `left_at`: the step at which the error, mean over
    all numbers of examples, is half-way from that of predicting zero to the least of all groups;
    `attention_done`: of the rise of the attention to the previous token, the share that is done
    when a tenth of the error's fall is; `parallel`: the mean cosine between the states of different
    queries at that time. `muon_over_adam` is the step at which Muon's runs leave the plateau over
    that of Adam's, None without both.
    """
    by_optimizer = {each.optimizer: each for each in found}
    if len(by_optimizer) < len(found):
        raise ConfigError("training.optimizer", "must differ between the groups of runs")
    least = min(float(each.values[..., _ERROR].mean((0, 1)).min()) for each in found)
    ratio = None
    if by_optimizer.keys() >= {"muon", "adam"}:
        ratio = _left_ratio(by_optimizer["muon"], by_optimizer["adam"], least, settings)
    return {
        "prompts": settings.prompts,
        "steps": list(found[0].steps),
        "groups": [_result(each, least, settings) for each in found],
        "muon_over_adam": ratio,
        "panels": _panels(found, least, uniform_share(points), settings),
    }


def _result(each: Trajectory, least: float, settings: EvaluationConfig) -> dict[str, Any]:
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
        "left_at": estimate([each.values], settings, left_at, log=True),
        "attention_done": estimate([each.values], settings, attention_done),
        "parallel": estimate([each.values], settings, parallel),
    }


def _left_ratio(
    first: Trajectory, second: Trajectory, least: float, settings: EvaluationConfig
) -> Estimate:
    """The step at which the first leaves the plateau over that of the second."""

    def ratio(means: Sequence[Floats]) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):  # off the plateau at the first step
            return _step(first, means[0], least) / _step(second, means[1], least)

    return estimate([first.values, second.values], settings, ratio, log=True)


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
    half = zero - LEAVES * (zero - least)
    panels = []
    for quantity, label, levels in (
        (_ERROR, SQUARED_ERROR, {"half of the fall": half}),
        (_ATTENTION, "attention at y to its own x", {"the same attention to all tokens": uniform}),
        (_COSINE, "cosine between states of different queries", {}),
    ):
        name, log = f"plateau-{QUANTITIES[quantity]}", "y" if quantity == _ERROR else ""
        curves = [
            Curve.of(
                each.optimizer.capitalize(),
                each.optimizer,
                band([each.values[..., quantity]], settings),
            )
            for each in found
        ]
        axes, x = ("training step by step", "training step", label), found[0].steps
        panels.append(Panel(name, *axes, x, curves, log=log, levels=levels))
    return panels


claim(
    "attention_rises_on_the_plateau",
    "Attention to the previous token, which binds x and y to a pair, rises before the error falls.",
    source=f"{_SOURCE}, on the attention that a task needs",
    quantity="share of the attention's rise that is done when a tenth of the error's fall is, with "
    "Adam",
    line=0.1,  # both at the same time
    holds_if="above",
    published="attention makes progress during the plateau",
    published_size="one layer, other tasks",
)(lambda evidence: Estimate.read(_with(evidence, "adam")["attention_done"]))

claim(
    "states_are_parallel_on_the_plateau",
    "On the plateau the states of different queries are nearly parallel.",
    source=f"{_SOURCE}, on the collapse of representations",
    quantity="mean cosine between the states of different queries when a tenth of the error's fall "
    "is done, with Adam",
    line=0.9,
    holds_if="above",
    published="nearly parallel",
    published_size="one layer, other tasks",
)(lambda evidence: Estimate.read(_with(evidence, "adam")["parallel"]))


@claim(
    "muon_leaves_the_plateau_first",
    "Muon leaves the plateau after fewer steps than Adam.",
    source="arXiv 2601.13474 (proved for linear attention)",
    quantity="step at which half of the error's fall is done, Muon over Adam",
    line=1.0,
    holds_if="below",
    published="fewer steps than Adam",
)
def muon_leaves_the_plateau_first(evidence: Evidence) -> Estimate:
    ratio = evidence.result("plateau")["muon_over_adam"]
    if ratio is None:
        raise NotMeasured("no run of Muon beside one of Adam")
    for optimizer in ("muon", "adam"):
        _with(evidence, optimizer)
    return Estimate.read(ratio)


@claim(
    "muon_suffers_more_from_shifts",
    "Inputs unlike those of training raise the error of a model trained by Muon by a larger factor "
    "than that of one trained by Adam for as many steps.",
    source="arXiv 2603.00742: Muon lacks the bias to simple solutions",
    quantity="error on shifted inputs over that on inputs of training, Muon over Adam, geometric "
    "mean over four shifts",
    line=1.0,
    holds_if="above",
    published="more prone to spurious features (other tasks)",
)
def muon_suffers_more_from_shifts(evidence: Evidence) -> Estimate:
    trained = [group(evidence, optimizer=_name(evidence, name)) for name in ("muon", "adam")]
    check_same_prompts(*trained)
    names = ("model_at_b", *(f"{shift}/model_at_b" for shift in _SHIFTS))
    parts = [np.stack([over_examples(each, name) for name in names], -1) for each in trained]

    def statistic(means: Sequence[Floats]) -> Floats:
        logs = [np.log(mean[..., 1:]).mean(-1) - np.log(mean[..., 0]) for mean in means]
        return np.asarray(np.exp(logs[0] - logs[1]))

    return hierarchical_bootstrap(parts, statistic, log=True)


def _with(evidence: Evidence, optimizer: str) -> Any:
    """The group of an optimiser, whose runs the verdict rests on."""
    (found,) = measured_groups(evidence, "plateau", optimizer=optimizer)
    evidence.where(optimizer=_name(evidence, optimizer))
    return found


def _name(evidence: Evidence, optimizer: str) -> str:
    """What the runs call it: adam, or adamw."""
    members = [*evidence.members, *(each.member for each in evidence.unfinished)]
    names = {member.config.training.optimizer for member in members}
    return "adamw" if optimizer == "adam" and "adamw" in names else optimizer
