"""Three ways to halt prediction by prediction.

The first measures when the state hardly changes over a loop. In the second a read-out of the state
learns when the prediction will hardly change any more. The third is trained with the model
(`loops.halt`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import changes, halted_at
from looplab.evaluation.groups import grouped
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate
from looplab.show.panel import Curve, Panel, file_name
from looplab.training.assemble import trained_loops
from looplab.training.halting import TrainedHalting, halted_means, halted_shares
from looplab.training.run_folder.run import Run

from .evidence import Evidence, groups_of_answer
from .question import Result, band, batches, estimate, first_at_most, prompts_of, value_at

_RULES = {  # each one's label and kind of curve
    "fixed": ("the same loops for all prompts", "control"),
    "measured": ("until the state hardly changes", "looped"),
    "learned": ("until a readout of the state says so", "linear_probe"),
}
_TRAINED = {  # by loops.halt, the same
    "act": ("trained to halt by adaptive computation time", "act"),
    "ponder": ("trained to halt as PonderNet", "ponder"),
}
_ALLOWED = 1.05  # times the error after b loops
_THRESHOLDS = 40
_LEAST = 1e-4  # smaller changes and distances are alike
_RIDGE = 1e-3  # over the mean square of the features


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Halt on `settings.prompts` prompts of looped runs; the readout is fitted on as many others.

    Each of the `groups`, one of each task, has `measured_over_fixed` and `learned_over_measured`,
    ratios of two rules' mean numbers of loops with which the error, mean over prompts and numbers
    of examples, is at most 5 % above that after b loops; and, of models that were trained to halt
    on the same task, `act_over_measured` and `ponder_over_measured`, with which it is at most 5 %
    above the larger of the two models' errors after b loops. `errors` has each rule's error where
    the mean number of loops is each of the `loops`.
    """
    plain_models: list[tuple[Config, Rules]] = []
    trained_to_halt: list[tuple[Config, Rules]] = []
    for group in grouped(runs):
        rules = Rules.of([_of_run(run, settings) for run in group.runs])
        models = trained_to_halt if group.config.loops.halt else plain_models
        models.append((group.config, rules))
    groups = []
    for config, plain in plain_models:
        of_task = [models for models in trained_to_halt if models[0].task == config.task]
        trained = {str(other.loops.halt): rules for other, rules in of_task}
        ratios = {
            "learned_over_measured": _ratio(plain, "learned", plain, "measured", settings),
            "measured_over_fixed": _ratio(plain, "measured", plain, "fixed", settings),
        }
        for kind, rules in trained.items():
            ratios[f"{kind}_over_measured"] = _ratio(rules, "trained", plain, "measured", settings)
        by_loops = _by_loops(trained_loops(config), plain, trained, settings)
        groups.append({"task": config.task.name} | ratios | by_loops)
    return {"groups": groups}


def panels(result: Result) -> list[Panel]:
    """The error by the mean number of loops, for each task."""
    axes = ("mean number of loops", SQUARED_ERROR)
    drawn = []
    for group in result["groups"]:
        title = group["task"].replace("_", " ")
        curves = []
        for rule, (label, kind) in (_RULES | _TRAINED).items():
            if rule in group["errors"]:
                curves.append(Curve.of(label, kind, group["errors"][rule]))
        drawn.append(Panel(file_name(f"halting {title}"), title, *axes, group["loops"], curves))
    return drawn


class Tradeoff(NamedTuple):
    """The error over the task's divisor and the loops used at each threshold of a rule, from loose
    to strict, [..., thresholds] each."""

    error: Floats
    loops: Floats

    def loops_at(self, error: Floats) -> Floats:
        """The loops with which the error first is at most so large, [...]."""
        return value_at(self.loops, first_at_most(self.error, error))

    def error_at(self, loops: float) -> Floats:
        """The error where the number of loops first is so large, [...]."""
        # From loose to strict the loops rise: their negatives fall to the level.
        return value_at(self.error, first_at_most(-self.loops, -loops))


@dataclass(frozen=True)
class Rules:
    """The trade-offs of all rules of a model in one array, [seeds, prompts, thresholds of all, 2],
    so that an interval compares them on the same seeds; `slices` are those of each rule."""

    columns: Floats
    slices: Mapping[str, slice]

    @classmethod
    def of(cls, runs: Sequence[Mapping[str, Floats]]) -> Rules:
        """The rules of several seeds, [prompts, thresholds, 2] each."""
        slices = {}
        first = 0
        for rule, values in runs[0].items():
            slices[rule] = slice(first, first + values.shape[1])
            first += values.shape[1]
        columns = [np.concatenate(list(rules.values()), axis=1) for rules in runs]
        return cls(np.stack(columns), slices)

    def mean(self, columns: Floats, rule: str) -> Tradeoff:
        """The trade-off of a rule in a mean of the columns, [..., thresholds of all, 2]."""
        both = columns[..., self.slices[rule], :]
        return Tradeoff(both[..., 0], both[..., 1])


def _ratio(
    above: Rules, rule: str, below: Rules, other: str, settings: EvaluationConfig
) -> Estimate:
    """The mean loops at the allowed error by a rule of a model over those by another rule of the
    same model or of another."""
    groups = [below.columns]
    if above is not below:
        groups.append(above.columns)

    def statistic(means: Sequence[Floats]) -> Floats:
        of_below = means[0]
        of_above = means[-1]  # the same mean where the model is the same
        # The strictest threshold of the same loops for all is b.
        below_at_b = below.mean(of_below, "fixed").error[..., -1]
        above_at_b = above.mean(of_above, "fixed").error[..., -1]
        allowed = _ALLOWED * np.maximum(below_at_b, above_at_b)
        loops = above.mean(of_above, rule).loops_at(allowed)
        return loops / below.mean(of_below, other).loops_at(allowed)

    return estimate(groups, settings, statistic, log=True)


def _of_run(run: Run, settings: EvaluationConfig) -> dict[str, Floats]:
    """Error and loops of each rule, [prompts, thresholds, 2]; of a model that was trained to halt
    its one rule beside that of the same loops for all."""
    by_batch = list(_trained(run, settings) if run.config.loops.halt else _untrained(run, settings))
    signals = {}
    for name in by_batch[0]:
        signals[name] = torch.cat([batch[name] for batch in by_batch]).numpy()
    errors = signals.pop("error")  # [queries, b]
    b = errors.shape[1]
    thresholds = {"fixed": [(errors[:, t], np.full(len(errors), t + 1.0)) for t in range(b)]}
    for rule, signal in signals.items():
        # Thresholds: from the one at which all halt at once to one at which none does before b.
        # A query halts after the first loop at which its signal is at most the threshold.
        levels = np.quantile(signal[:, :-1], np.linspace(1, 0, _THRESHOLDS))
        levels[-1] = -np.inf
        thresholds[rule] = [halted_at(errors, signal, level, b) for level in levels]
    rules = {}
    for rule, pairs in thresholds.items():
        both = np.stack([np.stack(pair, axis=-1) for pair in pairs], axis=1)
        # From queries to prompts, by the mean over the numbers of examples.
        rules[rule] = both.reshape(settings.prompts, -1, *both.shape[1:]).mean(1)
    return rules


def _untrained(run: Run, settings: EvaluationConfig) -> Iterator[dict[str, Tensor]]:
    """A batch at a time, the queries' error and what the rules halt by, [queries, b] each: the
    change of their states, and the readout of how far they are from their end."""
    readouts = _readouts(run, settings)
    for batch in _followed(run, settings):
        squares = (batch.predictions - batch.ys.flatten()[:, None]).square()
        left = (batch.features @ readouts[..., None])[..., 0].T
        yield {"error": squares / run.task.divisor, "measured": batch.changes, "learned": left}


def _trained(run: Run, settings: EvaluationConfig) -> Iterator[dict[str, Tensor]]:
    """A batch at a time, the queries' error and the share that has not halted, [queries, b]."""
    kind = str(run.config.loops.halt)
    for batch in batches(prompts_of(run, settings), settings.batch_size):
        by_loop = []
        by_loop_logits = []
        with TrainedHalting(run.model, run.config.loops) as halting:
            loops = run.model.unroll(batch, trained_loops(run.config))
            next(loops)  # the read-in precedes the first loop
            for _, prediction in loops:
                by_loop.append(prediction)
                by_loop_logits.append(halting.logits)
        predictions = torch.stack(by_loop).double()
        logits = torch.stack(by_loop_logits).double()
        if kind == "act":
            predictions = halted_means(predictions, logits)
        squares = (predictions - batch.ys).square() / run.task.divisor
        left = 1 - halted_shares(kind, logits)
        yield {"error": squares.flatten(1).T, "trained": left.flatten(1).T}


def _readouts(run: Run, settings: EvaluationConfig) -> Tensor:
    """For each loop the ridge regression of the logarithm of the prediction's distance from the one
    after b loops, in standard deviations of y, fitted on prompts of their own, [b, n_embd + 2]."""
    # XᵀX and Xᵀy for each loop are summed batch by batch.
    gram = products = torch.zeros((), dtype=torch.float32)
    count = 0
    for batch in _followed(run, settings, others=1):
        to_end = (batch.predictions - batch.predictions[:, -1:]).abs()
        targets = (to_end / run.task.divisor**0.5 + _LEAST).log().T
        transposed = batch.features.mT
        gram = gram + transposed @ batch.features
        products = products + (transposed @ targets[..., None])[..., 0]
        count += len(to_end)
    gram = gram / count
    products = products / count
    # (XᵀX / n + λ I) w = Xᵀy / n, where λ is relative to the features of the loop.
    penalty = _RIDGE * gram.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    return torch.linalg.solve(gram + penalty * torch.eye(gram.shape[-1]).to(gram), products)


class Followed(NamedTuple):
    """A batch of prompts through b loops: outputs [B, n]; the queries' predictions after each loop
    and the changes of their states over it, [queries, b]; and what a readout gets, the states with
    these changes and a constant, [b, queries, n_embd + 2]."""

    ys: Tensor
    predictions: Tensor
    changes: Tensor
    features: Tensor


@torch.no_grad()
def _followed(run: Run, settings: EvaluationConfig, others: int = 0) -> Iterator[Followed]:
    """The prompts of `prompts_of`, a batch at a time."""
    for batch in batches(prompts_of(run, settings, others), settings.batch_size):
        predictions = []
        features = []
        moved = []
        previous: tuple[Tensor, Tensor] | None = None
        loops = run.model.unroll(batch, trained_loops(run.config))
        next(loops)  # the read-in precedes the first loop
        for state, prediction in loops:
            # The stream has a token for each x and each y: predictions are read at those of x.
            tokens = state.stream[:, ::2]
            change = changes(previous, (tokens, prediction), run.task.divisor)["state_change"]
            change = change.nan_to_num(1.0).clamp_min(_LEAST)  # the first loop has none before it
            extra = torch.stack((change.log(), torch.ones_like(change)), -1)
            features.append(torch.cat((tokens, extra), -1).flatten(0, 1).double())
            moved.append(change.flatten())
            predictions.append(prediction.flatten())
            previous = tokens, prediction
        yield Followed(
            batch.ys,
            torch.stack(predictions, dim=-1).double(),
            torch.stack(moved, dim=-1).double(),
            torch.stack(features),
        )


def _by_loops(
    b: int, plain: Rules, trained: Mapping[str, Rules], settings: EvaluationConfig
) -> Result:
    """The `errors` of each rule by the mean number of `loops`."""
    loops = np.linspace(1, b, 4 * (b - 1) + 1)

    def at_loops(means: Sequence[Floats]) -> Floats:
        """The error at each mean number of loops, [..., len(loops)]."""
        tradeoff = Tradeoff(means[0][..., 0], means[0][..., 1])
        return np.stack([tradeoff.error_at(number) for number in loops], axis=-1)

    columns = {rule: plain.columns[..., plain.slices[rule], :] for rule in _RULES}
    for kind, rules in trained.items():
        columns[kind] = rules.columns[..., rules.slices["trained"], :]
    errors = {rule: band([values], settings, at_loops) for rule, values in columns.items()}
    return {"loops": loops.tolist(), "errors": errors}


def of_linear(evidence: Evidence, ratio: str) -> Estimate:
    """A ratio of two rules' loops, of the looped model of linear functions."""
    group = groups_of_answer(evidence, "halting", task="linear")[0]
    evidence.where(family="looped", name="linear")
    return Estimate.read(group[ratio])
