"""Three ways to halt prediction by prediction.

The first measures when the state hardly changes over a loop. In the second a read-out of the state
learns when the prediction will hardly change any more. The third is trained with the model
(`loops.halt`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import changes, halted_at
from looplab.evaluation.groups import grouped
from looplab.evaluation.results import SQUARED_ERROR
from looplab.evaluation.statistics import Estimate
from looplab.show.panel import Curve, Panel, file_name
from looplab.training.assemble import trained_loops
from looplab.training.halting import Halting, halted_means, halted_shares
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, measured_groups
from .measuring import band, batches, estimate, first_at_most, value_at

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


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Halt on `settings.prompts` prompts of looped runs; the readout is fitted on as many others.

    Each of the `groups`, one of each task, has `measured_over_fixed` and `learned_over_measured`,
    ratios of two rules' mean numbers of loops with which the error, mean over prompts and numbers
    of examples, is at most 5 % above that after b loops; and, of models that were trained to halt
    on the same task, `act_over_measured` and `ponder_over_measured`, with which it is at most 5 %
    above the larger of the two models' errors after b loops. `errors` has each rule's error where
    the mean number of loops is each of the `loops`.
    """
    groups, found = [], grouped(runs)
    # The rules one after another in one array, so that they are compared on the same seeds.
    values = [np.stack([_of_run(run, settings) for run in group.runs]) for group in found]
    for group, own in zip(found, values, strict=True):
        if group.config.loops.halt:
            continue
        trained = {
            str(each.config.loops.halt): of
            for each, of in zip(found, values, strict=True)
            if each.config.loops.halt and each.config.task == group.config.task
        }
        ratio = partial(_ratio, b=group.b, settings=settings)
        groups.append(
            {
                "task": group.runs[0].task.name,
                "learned_over_measured": ratio([own], "learned", "measured"),
                "measured_over_fixed": ratio([own], "measured", "fixed"),
                **{
                    f"{kind}_over_measured": ratio([own, of], "trained", "measured")
                    for kind, of in trained.items()
                },
                **_by_loops(group.b, own, trained, settings),
            }
        )
    return {"groups": groups}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The error by the mean number of loops, for each task."""
    axes = ("mean number of loops", SQUARED_ERROR)
    drawn = []
    for group in found["groups"]:
        title = group["task"].replace("_", " ")
        curves = [
            Curve.of(label, kind, group["errors"][rule])
            for rule, (label, kind) in (_RULES | _TRAINED).items()
            if rule in group["errors"]
        ]
        drawn.append(Panel(file_name(f"halting {title}"), title, *axes, group["loops"], curves))
    return drawn


def _ratio(
    parts: Sequence[Floats], rule: str, other: str, b: int, settings: EvaluationConfig
) -> Estimate:
    """The mean loops at the allowed error by a rule of the last part over those by another of the
    first."""

    def statistic(means: Sequence[Floats]) -> Floats:
        ends = [_rule(each, "fixed", b)[..., -1, 0] for each in means]
        allowed = _ALLOWED * np.maximum(ends[0], ends[-1])
        both = _rule(means[-1], rule, b), _rule(means[0], other, b)
        loops = [value_at(of[..., 1], first_at_most(of[..., 0], allowed)) for of in both]
        return loops[0] / loops[1]

    return estimate(parts, settings, statistic, log=True)


def _rule(values: Floats, rule: str, b: int) -> Floats:
    """The part of a rule, [..., thresholds, 2]."""
    ends = np.cumsum([0, b, _THRESHOLDS, _THRESHOLDS])
    place = 1 if rule == "trained" else list(_RULES).index(rule)
    return values[..., ends[place] : ends[place + 1], :]


def _of_run(run: Run, settings: EvaluationConfig) -> Floats:
    """The error over the task's divisor and the loops used at each threshold of each rule, from
    loose to strict, the rules one after another, [prompts, b + 2 thresholds, 2]; of a model that
    was trained to halt this is its one rule beside that of the same loops for all."""
    parts = _trained(run, settings) if run.config.loops.halt else _untrained(run, settings)
    errors, *signals = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    b = errors.shape[1]
    columns = [(errors[:, t], np.full(len(errors), t + 1.0)) for t in range(b)]
    for signal in signals:
        # From the threshold at which all halt at once to one at which none does before b.
        levels = np.quantile(signal[:, :-1], np.linspace(1, 0, _THRESHOLDS))
        levels[-1] = -np.inf
        columns += [halted_at(errors, signal, level, b) for level in levels]
    both = np.stack([np.stack(column, axis=-1) for column in columns], axis=1)
    return both.reshape(settings.prompts, -1, *both.shape[1:]).mean(1)


def _untrained(run: Run, settings: EvaluationConfig) -> Iterator[tuple[Tensor, ...]]:
    """A batch at a time, the queries' errors, the changes of their states and the readout of how
    far they are from their end, [queries, b] each."""
    readouts = _readouts(run, settings)
    for ys, predictions, moved, features in _followed(run, settings.seed, settings):
        squares = (predictions - ys.flatten()[:, None]).square() / run.task.divisor
        yield squares, moved, (features @ readouts[..., None])[..., 0].T


def _trained(run: Run, settings: EvaluationConfig) -> Iterator[tuple[Tensor, ...]]:
    """A batch at a time, the queries' errors and the share that has not halted, [queries, b]."""
    prompts = evaluation_prompts(run.task, settings.prompts, run.config.task.points, settings.seed)
    kind, b = run.config.loops.halt, trained_loops(run.config)
    for batch in batches(prompts, settings.batch_size):
        with Halting(run.model, run.config.loops) as halting:
            loops = islice(run.model.unroll(batch, b), 1, None)  # the read-in precedes the first
            pairs = [(prediction, halting.logits) for _, prediction in loops]
        predictions, logits = (torch.stack(each).double() for each in zip(*pairs, strict=True))
        if kind == "act":
            predictions = halted_means(predictions, logits)
        squares = (predictions - batch.ys).square() / run.task.divisor
        left = 1 - halted_shares(str(kind), logits)
        yield squares.flatten(1).T, left.flatten(1).T


def _readouts(run: Run, settings: EvaluationConfig) -> Tensor:
    """For each loop the ridge regression of the logarithm of the prediction's distance from the one
    after b loops, in standard deviations of y, fitted on prompts of their own, [b, n_embd + 2]."""
    gram = products = torch.zeros((), dtype=torch.float32)
    count = 0
    for _, predictions, _, features in _followed(run, settings.seed + 1, settings):
        distances = (predictions - predictions[:, -1:]).abs() / run.task.divisor**0.5
        targets = (distances + _LEAST).log().T
        gram = gram + features.mT @ features
        products = products + (features.mT @ targets[..., None])[..., 0]
        count += len(distances)
    gram, products = gram / count, products / count
    penalty = _RIDGE * gram.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    return torch.linalg.solve(gram + penalty * torch.eye(gram.shape[-1]).to(gram), products)


@torch.no_grad()
def _followed(
    run: Run, seed: int, settings: EvaluationConfig
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The prompts of a seed, a batch at a time: outputs [B, n]; the queries' predictions after each
    of the b loops and the changes of their states over it, [queries, b]; and what a readout gets,
    the states with these changes, [b, queries, n_embd + 2]."""
    prompts = evaluation_prompts(run.task, settings.prompts, run.config.task.points, seed)
    for batch in batches(prompts, settings.batch_size):
        predictions, features, moved = [], [], []
        previous: tuple[Tensor, Tensor] | None = None
        loops = iter(run.model.unroll(batch, trained_loops(run.config)))
        next(loops)  # the read-in precedes the first loop
        for state, prediction in loops:
            tokens = state.stream[:, ::2]
            change = changes(previous, (tokens, prediction), run.task.divisor)["state_change"]
            change = change.nan_to_num(1.0).clamp_min(_LEAST)  # the first loop has none before it
            extra = torch.stack((change.log(), torch.ones_like(change)), -1)
            features.append(torch.cat((tokens, extra), -1).flatten(0, 1).double())
            moved.append(change.flatten())
            predictions.append(prediction.flatten())
            previous = tokens, prediction
        by_loop, change = (torch.stack(each, dim=-1).double() for each in (predictions, moved))
        yield batch.ys, by_loop, change, torch.stack(features)


def _by_loops(
    b: int, values: Floats, trained: Mapping[str, Floats], settings: EvaluationConfig
) -> dict[str, Any]:
    """The `errors` of each rule by the mean number of `loops`."""
    x = np.linspace(1, b, 4 * (b - 1) + 1)

    def at_loops(means: Sequence[Floats]) -> Floats:
        """The error where the mean number of loops first is x, [..., len(x)]."""
        error, loops = means[0][..., 0], means[0][..., 1]
        places = [first_at_most(-loops, -number) for number in x]
        return np.stack([value_at(error, place) for place in places], axis=-1)

    rules = {rule: _rule(values, rule, b) for rule in _RULES}
    rules |= {kind: _rule(of, "trained", b) for kind, of in trained.items()}
    errors = {rule: band([of], settings, at_loops) for rule, of in rules.items()}
    return {"loops": x.tolist(), "errors": errors}


def of_linear(evidence: Evidence, ratio: str) -> Estimate:
    """A ratio of two rules' loops, of the looped model of linear functions."""
    group = measured_groups(evidence, "halting", task="linear")[0]
    evidence.where(family="looped", name="linear")
    return Estimate.read(group[ratio])
