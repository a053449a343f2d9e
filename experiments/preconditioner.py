"""The preconditioner that looped linear attention learned beside theory, and its errors by loop
beside gradient descent, plain and preconditioned, and Newton's method (arXiv 2410.08292)."""

from collections.abc import Sequence

import numpy as np
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.groups import Group, labelled
from looplab.evaluation.statistics import Estimate
from looplab.models.loops.linear_attention import LinearAttentionLoop
from looplab.show.panel import Panel
from looplab.tasks import Prompts
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.training.run_folder.run import Run

from .evidence import Evidence, groups_of_answer
from .iterates import solved
from .question import (
    BESIDE_SOLVERS,
    Result,
    bands_by_loop,
    by_loop,
    over_runs,
    prompts_of,
    ratio,
    squared_errors,
)

_LABELS = {
    "gradient_descent": "gradient descent",
    "preconditioned": "preconditioned by the inverse covariance",
    "newton": "Newton's method",
}


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """The learned preconditioner A = attentionᵀ of each run of linear attention, on tasks whose
    prompts share a covariance Σ.

    Each of the `groups` has the `spread` of Σ^½ A Σ^½, its largest singular value over its least:
    1 where A is a multiple of Σ⁻¹; and `over_theory` and `over_descent`, the error at b over that
    of b steps of gradient descent preconditioned by Σ⁻¹, and of plain gradient descent, at the
    rates that are best for b steps. Its errors by the loop, beside these methods', are as
    `bands_by_loop` has them.
    """
    return {"groups": [_group(label, group, settings) for label, group in labelled(runs)]}


def panels(result: Result) -> list[Panel]:
    """Errors of each group by the loop beside the methods'."""
    drawn = []
    for group in result["groups"]:
        title = f"{group['label']} beside preconditioned gradient descent"
        drawn.append(by_loop("preconditioner", title, BESIDE_SOLVERS, group))
    return drawn


def _group(label: str, group: Group[Run], settings: EvaluationConfig) -> Result:
    """The numbers and bands of one group; see `measure`."""
    task = group.runs[0].task
    b = group.b
    assert isinstance(task, ConditionedLinear)
    loops = resolved(group.runs[0], settings).max_loops or b
    prompts = prompts_of(group.runs[0], settings)
    other_prompts = prompts_of(group.runs[0], settings, others=1)
    values, vectors = np.linalg.eigh(task.covariance().double().numpy())
    # Σ = V diag(λ) Vᵀ gives Σ^½ and Σ^-½.
    root = (vectors * np.sqrt(values)) @ vectors.T
    whitening = (vectors / np.sqrt(values)) @ vectors.T
    descent = {"gradient_descent": range(1, loops + 1)}
    iterates = solved(prompts, other_prompts, descent | {"newton": range(1, loops + 1)}, b)
    # On whitened inputs it is descent preconditioned by the inverse covariance.
    white = _transformed(prompts, whitening)
    on_white = solved(white, _transformed(other_prompts, whitening), descent, b)
    iterates["preconditioned"] = on_white["gradient_descent"]
    outputs = prompts.ys.double().numpy()[:, -1]
    solvers = {}
    for name, method in _LABELS.items():
        squares = np.square(iterates[name][..., -1] - outputs)  # [steps, prompts]
        solvers[name] = (method, squares.T[None] / task.divisor)
    models = squared_errors(group, prompts, settings, loops)[..., -1]

    def over(method: str) -> Estimate:
        """The error at b over that of b steps of a method."""
        _, errors = solvers[method]
        trained = (True, False)
        return ratio(models[..., b - 1], errors[..., b - 1], settings, trained=trained)

    result = bands_by_loop(label, group, models, settings, solvers)
    result["spread"] = over_runs([_spread(run, root) for run in group.runs])
    result["over_theory"] = over("preconditioned")
    result["over_descent"] = over("gradient_descent")
    return result


def _transformed(prompts: Prompts, matrix: Floats) -> Prompts:
    """The prompts with their inputs times a matrix."""
    return Prompts(torch.from_numpy(prompts.xs.double().numpy() @ matrix), prompts.ys)


def _spread(run: Run, root: Floats) -> float:
    """The spread of Σ^½ A Σ^½; `root` is Σ^½."""
    loop = run.model.loop
    assert isinstance(loop, LinearAttentionLoop)
    return float(np.linalg.cond(root @ loop.attention.detach().double().numpy().T @ root))


def of_fewest_loops(evidence: Evidence, quantity: str) -> Estimate:
    """A number of the linear attention with the fewest loops in training: the more loops, the less
    they need a preconditioner."""
    group = min(groups_of_answer(evidence, "preconditioner"), key=lambda group: group["b"])
    evidence.where(injection="linear_attention", b=group["b"])
    return Estimate.read(group[quantity])
