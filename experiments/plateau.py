"""Training step by step, from the runs' snapshots: the error, the attention to the previous token,
and how parallel the states of different queries are (arXiv 2506.13688)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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

from .evidence import Evidence, group, groups_of_answer, of_runs, over_examples, within
from .question import Result, band, batches, estimate, first_at_most, prompts_of, value_at

LEAVES = 0.5  # the end of the plateau, from 0, the Bayes error, to 1, that of predicting 0
_PLATEAU = 0.1  # of the error's fall: up to there a model is on the plateau
SHIFTS = ("skewed_covariance", "half_subspace", "random_orthants", "scaled_x_2")


@dataclass(frozen=True)
class Quantities:
    """What snapshots show, [..., steps] each: the error, the attention to the previous token, the
    cosine between the states of different queries, and the error of predicting zero."""

    error: Floats
    attention: Floats
    cosine: Floats
    zero: Floats

    @classmethod
    def of(cls, columns: Floats) -> Quantities:
        """The quantities of `columns`, [..., steps, 4]."""
        return cls(*np.moveaxis(columns, -1, 0))

    @property
    def columns(self) -> Floats:
        """All in one array, [..., steps, 4]: an interval of several is of the same seeds and
        prompts."""
        return np.stack((self.error, self.attention, self.cosine, self.zero), axis=-1)

    def by_step(self, settings: EvaluationConfig) -> dict[str, Interval]:
        """Each quantity, of [seeds, prompts, steps], as a band over the steps."""
        return {
            "error": band([self.error], settings),
            "attention": band([self.attention], settings, log=False),
            "cosine": band([self.cosine], settings, log=False),
            "zero": band([self.zero], settings),
        }


def bayes_error(dims: int, points: int) -> float:
    """The expected error of the best predictor of linear functions without noise, over the variance
    of y, averaged over 0 … points - 1 examples.

    k examples determine the weights w ~ N(0, I) in k directions and leave dims - k free: the error
    is (dims - k) / dims of y's variance, 0 for k >= dims (Garg et al. 2022).
    """
    return sum(max(dims - k, 0) for k in range(points)) / (dims * points)


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Measure the snapshots of runs that differ in the optimiser and the seed; result as `compare`,
    arguments and errors as `followed`."""
    steps, by_config = followed(runs, settings)
    by_optimizer = {optimizer_of(config): quantities for config, quantities in by_config}
    return compare(by_optimizer, steps, uniform_share(runs[0].config.task.points), settings)


def optimizer_of(config: Config) -> str:
    """Muon, or adam with or without decay of the weights."""
    return config.training.optimizer.removesuffix("w")


def followed(
    runs: Sequence[Run], settings: EvaluationConfig
) -> tuple[list[int], list[tuple[Config, Quantities]]]:
    """The steps of the snapshots that all runs of one task have, and what these show on
    `settings.prompts` prompts, of each configuration [seeds, prompts, steps]. RunError for runs
    without three common steps."""
    snapshots = {run.path: snapshots_of(run.path) for run in runs}
    steps = sorted(set.intersection(*map(set, snapshots.values())))
    if len(steps) < 3:
        fewest = min(snapshots, key=lambda path: len(snapshots[path]))
        raise RunError(
            f"{fewest} has {len(snapshots[fewest])} snapshots, all runs together {len(steps)}: "
            "train it again with training.snapshots and again=true"
        )
    prompts = prompts_of(runs[0], settings)
    by_config = []
    for same in grouped(runs):
        seeds = [trajectory(run, steps, prompts, settings).columns for run in same.runs]
        by_config.append((same.config, Quantities.of(np.stack(seeds))))
    return steps, by_config


def trajectory(
    run: Run, steps: Sequence[int], prompts: Prompts, settings: EvaluationConfig
) -> Quantities:
    """What the snapshots of a run show, [prompts, steps] each: errors are means over all numbers of
    examples, over the variance of y, cosines those between the states of different queries after
    the last loop. The head is the one that attends most to the previous token after the last step,
    in the loop where it does."""
    folders = snapshots_of(run.path)
    head = None
    backwards = []  # from the last step on, which chooses the head
    for step in reversed(steps):
        model = load_run(folders[step]).model
        by_batch, attention = [], []
        for batch in batches(prompts, settings.batch_size):
            with recorded_shares(model) as shares:
                states = model.unroll(batch, trained_loops(run.config))
                state, predictions = deque(states, maxlen=1).pop()
            error = (predictions - batch.ys).square().mean(-1)
            units = F.normalize(state.stream[:, ::2].float(), dim=-1)
            count = units.shape[1]
            # |Σ u|² is the sum of all cosines, of which those of a state with itself are 1.
            cosine = (units.sum(1).square().sum(-1) - count) / (count * (count - 1))
            # Means over the numbers of examples, [3, B].
            by_batch.append(torch.stack((error, cosine, batch.ys.square().mean(-1))))
            # Of every head in every loop, [loops · heads, B].
            attention.append(torch.cat(shares))
        error, cosine, zero = torch.cat(by_batch, dim=-1)
        by_head = torch.cat(attention, dim=-1)
        if head is None:
            head = int(by_head.mean(-1).argmax())
        divisor = run.task.divisor
        # Attention and cosines have no unit; errors are over the variance of y.
        columns = torch.stack((error / divisor, by_head[head], cosine, zero / divisor), dim=-1)
        backwards.append(columns.double().numpy())
    return Quantities.of(np.stack(backwards[::-1], axis=1))


def compare(
    by_optimizer: Mapping[str, Quantities],
    steps: Sequence[int],
    uniform: float,
    settings: EvaluationConfig,
) -> Result:
    """The quantities by optimiser, [seeds, prompts, steps]; `uniform` is the attention of a head
    that attends to all tokens alike.

    Each of the `groups` has its `optimizer` (muon, or adam with or without decay of the weights)
    and, when a tenth of the fall of the error is done, from that of predicting zero to the least of
    all groups, `attention_done`: the share that is done of the rise of the attention to the
    previous token; and `parallel`: the mean cosine between the states of different queries. Its
    quantities after each of the `steps` are `by_step`. `half` is the error at which half of the
    fall is done, and `muon_over_adam` the step of it with Muon over that with Adam.
    """
    all_quantities = list(by_optimizer.values())
    # One fall for all optimisers, down to the least error of any.
    least = min(float(shown.error.mean((0, 1)).min()) for shown in all_quantities)

    def index_of_fall(shown: Quantities, share: float) -> Floats:
        """The index in the steps at which a share of the error's fall is done, [...]."""
        zero = shown.zero[..., 0]
        return first_at_most(shown.error, zero - share * (zero - least))

    def attention_done(means: Sequence[Floats]) -> Floats:
        """The share of the attention's rise that is done at the end of the plateau."""
        shown = Quantities.of(means[0])
        start = shown.attention[..., 0]
        end = shown.attention[..., -1]
        on_plateau = value_at(shown.attention, index_of_fall(shown, _PLATEAU))
        return (on_plateau - start) / (end - start)

    def parallel(means: Sequence[Floats]) -> Floats:
        """The cosine at the end of the plateau."""
        shown = Quantities.of(means[0])
        return value_at(shown.cosine, index_of_fall(shown, _PLATEAU))

    def first_left(means: Sequence[Floats]) -> Floats:
        """The step at which the first leaves the plateau over that of the second."""
        left = []
        for mean in means:
            index = index_of_fall(Quantities.of(mean), LEAVES)
            left.append(np.interp(index, np.arange(len(steps)), steps))
        with np.errstate(invalid="ignore", divide="ignore"):  # off the plateau at the first step
            return left[0] / left[1]

    groups = []
    for optimizer, shown in by_optimizer.items():
        numbers: Result = {"optimizer": optimizer, "by_step": shown.by_step(settings)}
        numbers["attention_done"] = estimate([shown.columns], settings, attention_done)
        numbers["parallel"] = estimate([shown.columns], settings, parallel)
        groups.append(numbers)
    zero = float(all_quantities[0].zero.mean())
    half = zero - LEAVES * (zero - least)
    result: Result = {"groups": groups, "steps": list(steps)}
    result |= {"half": half, "uniform": uniform}
    if by_optimizer.keys() >= {"muon", "adam"}:
        both = [by_optimizer["muon"].columns, by_optimizer["adam"].columns]
        result["muon_over_adam"] = estimate(both, settings, first_left, log=True)
    return result


def panels(result: Result) -> list[Panel]:
    """Each quantity by the step."""
    half = {"half of the fall": result["half"]}
    alike = {"the same attention to all tokens": result["uniform"]}
    drawn = []
    for name, label, log, levels in (
        ("error", SQUARED_ERROR, "y", half),
        ("attention", "attention at y to its own x", "", alike),
        ("cosine", "cosine between states of different queries", "", {}),
    ):
        curves = []
        for kept in result["groups"]:
            optimizer = kept["optimizer"]
            curves.append(Curve.of(optimizer.capitalize(), optimizer, kept["by_step"][name]))
        axes = ("training step by step", "training step", label)
        steps = result["steps"]
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
    (adam,) = groups_of_answer(evidence, "plateau", optimizer="adam")
    evidence.where(optimizer="adamw")
    return Estimate.read(adam[quantity])
