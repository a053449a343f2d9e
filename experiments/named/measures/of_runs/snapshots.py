"""What the snapshots of runs show, step by step of their training: the error, the attention to the
previous token, and how parallel the states of different queries are.

for each in trajectories(runs, EvaluationConfig(prompts=256)): each.values      # by QUANTITIES
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import EvaluationConfig
from reloop.evaluation import load_run, snapshots_of
from reloop.evaluation.bootstrap import Floats
from reloop.evaluation.errors import evaluation_prompts
from reloop.models import Model
from reloop.probing.attention import recorded_shares
from reloop.tasks import Prompts
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.run import Run

from .common import Group, Missing, grouped

QUANTITIES = ("error", "attention", "cosine", "zero")
_LEAST = 3  # snapshots


class Trajectory(NamedTuple):
    """What the snapshots of a group show at `steps`: `values` [seeds, prompts, steps, 4], in the
    order of `QUANTITIES`; `zero` is the error of predicting zero, the same at all steps. Errors are
    means over all numbers of examples, over the variance of y."""

    group: Group
    steps: Sequence[int]
    values: Floats

    @property
    def optimizer(self) -> str:
        """muon or adam, with or without decay of the weights."""
        return self.group.runs[0].config.training.optimizer.removesuffix("w")


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
    folders, size = snapshots_of(run.path), settings.batch_size
    batches = [prompts[slice(i, i + size)] for i in range(0, len(prompts), size)]
    loops, head, found = trained_loops(run.config), -1, list[Floats]()
    for step in reversed(steps):
        model = load_run(folders[step]).model
        parts = [_measured(model, batch, loops) for batch in batches]
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
