"""What a token costs language models of about equal loss at inference, and the error of keys and
values that loops share."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.groups import Group, labelled
from looplab.evaluation.statistics import Estimate, NotMeasured
from looplab.evaluation.text.scores import bits_per_byte, blocks
from looplab.models import Model
from looplab.models.flops import pass_costs
from looplab.models.operations import Cache
from looplab.show.panel import Curve, Panel
from looplab.tasks.language import Language
from looplab.training.objective import error
from looplab.training.run_folder.run import Run

from .evidence import Evidence, counted, highest
from .question import Result, estimate

_BATCHES = (1, 8, 32)
_REPEATS = 5
_CACHES = {"own": "each loop's own keys and values", "shared": "shared over loops"}
_QUANTITIES = {
    "bits": "bits per byte",
    "flops": "FLOPs of the last token",
    "bytes": "bytes of keys and values a token",
}
_QUANTITIES |= {f"speed_{batch}": f"tokens a second, batch {batch}" for batch in _BATCHES}


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Let language models read the first `settings.prompts` blocks of the held-out text as in
    generation, token by token, with keys and values of each loop's `own` and `shared` over loops.

    Each of the `groups` has its `loops` (1 of a standard model), with either cache its `bits` per
    byte, the `flops` of a block's last token, the `bytes` a token and, by batch, the tokens a
    second on so many `threads` (`speed_1`); `shared_over_own` is the ratio of bits per byte.
    """
    named = labelled(runs)
    speeds = _speeds(named)
    groups = [_of_group(label, group, settings, speeds) for label, group in named]
    groups.sort(key=itemgetter("loops"))
    return {"groups": groups, "threads": torch.get_num_threads()}


def panels(result: Result) -> list[Panel]:
    """Each quantity by loops, a curve for each cache."""
    loops = [group["loops"] for group in result["groups"]]
    drawn = []
    for name, label in _QUANTITIES.items():
        curves = []
        for cache, words in _CACHES.items():
            values = [group[cache][name] for group in result["groups"]]
            curves.append(Curve(label=words, kind="looped", mean=values, name=cache))
        limits = (None if name == "bits" else 0, None)
        panel = Panel(name, "", "loops", label, loops, curves, limits=limits, picture="inference")
        drawn.append(panel)
    return drawn


def _speeds(groups: Sequence[tuple[str, Group[Run]]]) -> dict[tuple[str, str, int], float]:
    """Tokens a second of each group's first model, by its label, cache and batch: all take turns,
    and medians count."""
    seconds = defaultdict(list)
    # Variants take turns, so that a slow moment of the machine is not that of one.
    for _, (label, group), cache, batch in product(range(_REPEATS), groups, _CACHES, _BATCHES):
        # What is timed does not depend on which tokens are read.
        text = torch.zeros(batch, group.config.task.points, dtype=torch.int64)
        begin = perf_counter()
        _read(group.runs[0].model, text, group.b, Cache(shared=cache == "shared"))
        seconds[label, cache, batch].append((perf_counter() - begin) / text.numel())
    return {variant: 1 / median(times) for variant, times in seconds.items()}


def _of_group(
    label: str,
    group: Group[Run],
    settings: EvaluationConfig,
    speeds: dict[tuple[str, str, int], float],
) -> Result:
    """The numbers of one group; see `measure`."""
    task = group.runs[0].task
    points = group.config.task.points
    assert isinstance(task, Language)
    tokens = task.corpus.tokens["held_out"]
    most = settings.prompts * points
    prompts = blocks(tokens, task.tokenizer.start, points, most, "held_out")
    # A token that stands for no bytes, such as the start, does not count.
    counted = torch.from_numpy(task.corpus.lengths > 0)[prompts.ys]
    loops = 1 if group.family == "standard" else group.b
    costs: dict[str, dict[str, float]] = {}
    flops = pass_costs(group.runs[0].model, 1, context=points).forward(group.b)
    bits = []  # of each cache, [seeds, blocks]
    for name in _CACHES:
        nats = []
        for run in group.runs:
            cache = Cache(shared=name == "shared")
            logits = _read(run.model, prompts.xs, group.b, cache)
            nats.append((error("next_token", logits, prompts.ys).double() * counted).sum(1))
        by_block = bits_per_byte(torch.stack(nats, 1).numpy(), prompts, task.corpus.lengths)
        bits.append(by_block.T)
        held = cache.bytes / prompts.xs.numel()
        costs[name] = {"bits": float(bits[-1].mean()), "flops": flops, "bytes": held}
        costs[name] |= {f"speed_{batch}": speeds[label, name, batch] for batch in _BATCHES}
    ratio = estimate([np.stack(bits, axis=-1)], settings, _shared_over_own, log=True)
    return {"label": label, "loops": loops, "shared_over_own": ratio, **costs}


def _shared_over_own(means: Sequence[Floats]) -> Floats:
    """The ratio of bits per byte, [..., caches]."""
    return means[0][..., 1] / means[0][..., 0]


def _read(model: Model, text: Tensor, loops: int, cache: Cache) -> Tensor:
    """The logits [B, S, vocabulary] of texts [B, S], token by token."""
    parts = [model.continue_text(token, loops, cache) for token in text.split(1, dim=1)]
    return torch.cat(parts, dim=1)


def shared_over_own(evidence: Evidence) -> Estimate:
    """The bits per byte with keys and values shared over loops over those with each loop's own, of
    the model of which they are largest."""
    groups = evidence.result("inference", "groups")
    found = [Estimate.read(each["shared_over_own"]) for each in groups if each["loops"] > 1]
    if not found:
        raise NotMeasured("no model with several loops")
    evidence.where(name="language")
    return highest(found)


def flops_spread(evidence: Evidence) -> Estimate:
    """The FLOPs of a token of the model of which they are most over those of which they are least,
    which are counted, not measured."""
    groups = evidence.result("inference", "groups")
    flops = [each["own"]["flops"] for each in groups]
    if len(flops) < 2:
        raise NotMeasured("one number of loops")
    evidence.where(name="language")
    return counted(max(flops) / min(flops))
