"""The preconditioner that looped linear attention learned beside theory, and its errors by loop
beside gradient descent, plain and preconditioned, and Newton's method (arXiv 2410.08292)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.groups import Group, labelled
from looplab.evaluation.statistics import Estimate
from looplab.models.loops.linear_attention import LinearAttentionLoop
from looplab.show.panel import Panel
from looplab.tasks import Prompts
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, measured_groups
from .iterates import solved
from .measuring import (
    BESIDE_SOLVERS,
    bands_by_loop,
    by_loop,
    over_runs,
    ratio,
    squared_errors,
)

_LABELS = {
    "gradient_descent": "gradient descent",
    "preconditioned": "preconditioned by the inverse covariance",
    "newton": "Newton's method",
}


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """The learned preconditioner A = attentionᵀ of each run of linear attention, on tasks whose
    prompts share a covariance Σ.

    Each of the `groups` has the `spread` of Σ^½ A Σ^½, its largest singular value over its least:
    1 where A is a multiple of Σ⁻¹; and `over_theory` and `over_descent`, the error at b over that
    of b steps of gradient descent preconditioned by Σ⁻¹, and of plain gradient descent, at the
    rates that are best for b steps. Its errors by the loop, beside these methods', are as
    `bands_by_loop` has them.
    """
    return {"groups": [_group(label, group, settings) for label, group in labelled(runs)]}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Errors of each group by the loop beside the methods'."""
    drawn = []
    for group in found["groups"]:
        title = f"{group['label']} beside preconditioned gradient descent"
        drawn.append(by_loop("preconditioner", title, BESIDE_SOLVERS, group))
    return drawn


def _group(label: str, group: Group[Run], settings: EvaluationConfig) -> dict[str, Any]:
    task, b = group.runs[0].task, group.b
    assert isinstance(task, ConditionedLinear)
    loops = resolved(group.runs[0], settings).max_loops or b
    prompts, other_prompts = (
        evaluation_prompts(task, settings.prompts, group.config.task.points, seed)
        for seed in (settings.seed, settings.seed + 1)
    )
    values, vectors = np.linalg.eigh(task.covariance().double().numpy())
    whitening = (vectors / np.sqrt(values)) @ vectors.T
    descent = {"gradient_descent": range(1, loops + 1)}
    found = solved(prompts, other_prompts, descent | {"newton": range(1, loops + 1)}, b)
    # On whitened inputs it is descent preconditioned by the inverse covariance.
    white, other_white = (
        Prompts(torch.from_numpy(each.xs.double().numpy() @ whitening), each.ys)
        for each in (prompts, other_prompts)
    )
    found["preconditioned"] = solved(white, other_white, descent, b)["gradient_descent"]
    outputs = prompts.ys.double().numpy()[:, -1]
    solvers = {
        name: (label, np.square(found[name][..., -1] - outputs).T[None] / task.divisor)
        for name, label in _LABELS.items()
    }
    models = squared_errors(group, prompts, settings, loops)[..., -1]

    def over(method: str) -> Estimate:
        theirs = solvers[method][1][..., b - 1]
        return ratio(models[..., b - 1], theirs, settings, trained=(True, False))

    root = (vectors * np.sqrt(values)) @ vectors.T

    def spread(run: Run) -> float:
        loop = run.model.loop
        assert isinstance(loop, LinearAttentionLoop)
        return float(np.linalg.cond(root @ loop.attention.detach().double().numpy().T @ root))

    return {
        **bands_by_loop(label, group, models, settings, solvers),
        "spread": over_runs([*map(spread, group.runs)]),
        "over_theory": over("preconditioned"),
        "over_descent": over("gradient_descent"),
    }


def of_fewest_loops(evidence: Evidence, quantity: str) -> Estimate:
    """A number of the linear attention with the fewest loops in training: the more loops, the less
    they need a preconditioner."""
    group = min(measured_groups(evidence, "preconditioner"), key=lambda group: group["b"])
    evidence.where(injection="linear_attention", b=group["b"])
    return Estimate.read(group[quantity])
