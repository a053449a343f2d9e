"""Training step by step, from the runs' snapshots: the error, the attention to the previous token,
and how parallel the states of different queries are (arXiv 2506.13688)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.groups import grouped
from looplab.evaluation.load import load_run
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate
from looplab.probing.attention import recorded_shares, uniform_share
from looplab.show.panel import Curve, Panel
from looplab.tasks import Prompts
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.checkpoint import snapshots_of
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, group, measured_groups, of_runs, over_examples, within
from .measuring import band, batches, estimate, first_at_most, value_at

LEAVES = 0.5  # the end of the plateau, from 0, the Bayes error, to 1, that of predicting 0
QUANTITIES = ("error", "attention", "cosine", "zero")
_ERROR, _ATTENTION, _COSINE, _ZERO = range(len(QUANTITIES))
_PLATEAU = 0.1  # of the error's fall: up to there a model is on the plateau
SHIFTS = ("skewed_covariance", "half_subspace", "random_orthants", "scaled_x_2")


def bayes_error(dims: int, points: int) -> float:
    """The expected error of the best predictor of linear functions without noise, over the variance
    of y, averaged over 0 … points - 1 examples.

    k examples determine the weights w ~ N(0, I) in k directions and leave dims - k free: the error
    is (dims - k) / dims of y's variance, 0 for k >= dims (Garg et al. 2022).
    """
    return sum(max(dims - k, 0) for k in range(points)) / (dims * points)


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Measure the snapshots of runs that differ in the optimiser and the seed; result as `compare`,
    arguments and errors as `followed`."""
    steps, found = followed(runs, settings)
    values = {config.training.optimizer.removesuffix("w"): each for config, each in found}
    return compare(values, steps, uniform_share(runs[0].config.task.points), settings)


def followed(
    runs: Sequence[Run], settings: EvaluationConfig
) -> tuple[list[int], list[tuple[Config, Floats]]]:
    """The steps of the snapshots that all runs of one task have, and what these show on
    `settings.prompts` prompts, of each configuration [seeds, prompts, steps, 4]. RunError for runs
    without three common steps."""
    kept = {run.path: snapshots_of(run.path) for run in runs}
    steps = sorted(set.intersection(*map(set, kept.values())))
    if len(steps) < 3:
        fewest = min(kept, key=lambda path: len(kept[path]))
        raise RunError(
            f"{fewest} has {len(kept[fewest])} snapshots, all runs together {len(steps)}: train "
            "it again with training.snapshots and again=true"
        )
    points = runs[0].config.task.points
    prompts = evaluation_prompts(runs[0].task, settings.prompts, points, settings.seed)
    return steps, [
        (group.config, np.stack([trajectory(run, steps, prompts, settings) for run in group.runs]))
        for group in grouped(runs)
    ]


def trajectory(
    run: Run, steps: Sequence[int], prompts: Prompts, settings: EvaluationConfig
) -> Floats:
    """The numbers that the snapshots of a run show, [prompts, steps, 4], in the order of
    `QUANTITIES`: errors are means over all numbers of examples, over the variance of y, cosines
    those between the states of different queries after the last loop. The head is the one that
    attends most to the previous token after the last step, in the loop where it does."""
    folders = snapshots_of(run.path)
    loops, head, found = trained_loops(run.config), -1, list[Floats]()
    for step in reversed(steps):
        model, parts, attention = load_run(folders[step]).model, [], []
        for batch in batches(prompts, settings.batch_size):
            with recorded_shares(model) as shares:
                *_, (state, predictions) = model.unroll(batch, loops)
            error = (predictions - batch.ys).square().mean(-1)
            units = F.normalize(state.stream[:, ::2].float(), dim=-1)
            count = units.shape[1]
            # |Σ u|² is the sum of all cosines, of which the own ones are 1.
            cosine = (units.sum(1).square().sum(-1) - count) / (count * (count - 1))
            parts.append(torch.stack((error, cosine, batch.ys.square().mean(-1))))  # [3, B]
            attention.append(torch.cat(shares))  # of every head in every loop, [loops · heads, B]
        (error, cosine, zero), by_head = torch.cat(parts, dim=-1), torch.cat(attention, dim=-1)
        head = int(by_head.mean(-1).argmax()) if head < 0 else head
        rows = torch.stack((error, by_head[head], cosine, zero), dim=-1)
        rows[:, [0, 3]] /= run.task.divisor
        found.insert(0, rows.double().numpy())
    return np.stack(found, axis=1)


def by_step(values: Floats, settings: EvaluationConfig) -> dict[str, Interval]:
    """Each quantity of [seeds, prompts, steps, 4] as a band over the steps."""
    return {
        name: band([values[..., place]], settings, log=name in ("error", "zero"))
        for place, name in enumerate(QUANTITIES)
    }


def compare(
    values: Mapping[str, Floats], steps: Sequence[int], uniform: float, settings: EvaluationConfig
) -> dict[str, Any]:
    """The quantities by optimiser, [seeds, prompts, steps, 4]; `uniform` is the attention of a head
    that attends to all tokens alike.

    Each of the `groups` has its `optimizer` (muon, or adam with or without decay of the weights)
    and, when a tenth of the fall of the error is done, from that of predicting zero to the least of
    all groups, `attention_done`: the share that is done of the rise of the attention to the
    previous token; and `parallel`: the mean cosine between the states of different queries. Its
    quantities after each of the `steps` are `by_step`. `half` is the error at which half of the
    fall is done, and `muon_over_adam` the step of it with Muon over that with Adam.
    """
    least = min(float(each[..., _ERROR].mean((0, 1)).min()) for each in values.values())

    def place(means: Floats, share: float) -> Floats:
        """The place among the steps at which a share of the error's fall is done, [...]."""
        zero = means[..., 0, _ZERO]
        return first_at_most(means[..., _ERROR], zero - share * (zero - least))

    def attention_done(means: Sequence[Floats]) -> Floats:
        attention = means[0][..., _ATTENTION]
        start, end = attention[..., 0], attention[..., -1]
        return (value_at(attention, place(means[0], _PLATEAU)) - start) / (end - start)

    def parallel(means: Sequence[Floats]) -> Floats:
        return value_at(means[0][..., _COSINE], place(means[0], _PLATEAU))

    def first_left(means: Sequence[Floats]) -> Floats:
        """The step at which the first leaves the plateau over that of the second."""
        left = [np.interp(place(each, LEAVES), np.arange(len(steps)), steps) for each in means]
        with np.errstate(invalid="ignore", divide="ignore"):  # off the plateau at the first step
            return left[0] / left[1]

    groups = []
    for optimizer, each in values.items():
        numbers = {
            "attention_done": estimate([each], settings, attention_done),
            "parallel": estimate([each], settings, parallel),
        }
        about = {"optimizer": optimizer, "by_step": by_step(each, settings)}
        groups.append(about | numbers)
    zero = float(next(iter(values.values()))[..., _ZERO].mean())
    found: dict[str, Any] = {
        "groups": groups,
        "steps": list(steps),
        "half": zero - LEAVES * (zero - least),
        "uniform": uniform,
    }
    if values.keys() >= {"muon", "adam"}:
        both = [values["muon"], values["adam"]]
        found["muon_over_adam"] = estimate(both, settings, first_left, log=True)
    return found


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Each quantity by the step."""
    half, alike = found["half"], {"the same attention to all tokens": found["uniform"]}
    drawn = []
    for name, label, log, levels in (
        ("error", SQUARED_ERROR, "y", {"half of the fall": half}),
        ("attention", "attention at y to its own x", "", alike),
        ("cosine", "cosine between states of different queries", "", {}),
    ):
        curves = [
            Curve.of(group["optimizer"].capitalize(), group["optimizer"], group["by_step"][name])
            for group in found["groups"]
        ]
        axes = ("training step by step", "training step", label)
        steps = found["steps"]
        drawn.append(Panel(f"plateau-{name}", *axes, steps, curves, log=log, levels=levels))
    return drawn


def muon_over_adam_on_shifts(evidence: Evidence) -> Estimate:
    """The error on shifted inputs over that on inputs of training, Muon over Adam: the geometric
    mean over the shifts."""
    muon = group(evidence, optimizer="muon")
    adam = group(evidence, optimizer="adamw")
    shifted = [partial(over_examples, name=f"{shift}/model_at_b") for shift in SHIFTS]
    return within([(muon, adam)], shifted, [over_examples])


def muon_over_adam(evidence: Evidence) -> Estimate:
    """The step at which half of the error's fall is done, Muon over Adam."""
    return of_runs(evidence, "plateau", "muon_over_adam")


def of_adam(evidence: Evidence, quantity: str) -> Estimate:
    """A number of the group of Adam, on whose runs the verdict rests."""
    (adam,) = measured_groups(evidence, "plateau", optimizer="adam")
    evidence.where(optimizer="adamw")
    return Estimate.read(adam[quantity])
