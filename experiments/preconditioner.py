"""The preconditioner that looped linear attention learned beside theory, and its errors by loop
beside gradient descent, plain and preconditioned, and Newton's method (arXiv 2410.08292).

result = measure([load_run(path)], EvaluationConfig(prompts=512))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines.iterates import (
    best_rate,
    gradient_descent,
    newton,
    normal_equations,
    predictions,
)
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.panel import Panel, file_name
from looplab.models.loops.linear_attention import LinearAttentionLoop
from looplab.tasks import Prompts, Task
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.tasks.linear import Linear
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, claim
from .evidence import measured_groups
from .measuring import (
    SQUARED_ERROR,
    SeedGroup,
    beside_solvers,
    estimate,
    grouped,
    one_over_other,
    over_runs,
    unrolled,
)

_LABELS = {
    "gradient_descent": "gradient descent",
    "preconditioned": "preconditioned by the inverse covariance",
    "newton": "Newton's method",
}
_GATMIRY = "arXiv 2410.08292, theorem on the global minimiser"


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """The learned preconditioner A = attentionᵀ of each run. ConfigError for a model that is no
    loop of linear attention, and for a task whose prompts do not share a covariance Σ.

    Each of the `groups` has, of W = Σ^½ A Σ^½: `singular_values`, all the same where A is a
    multiple of Σ⁻¹ (mean over seeds, falling); `spread`, the largest over the least, and the same
    of Σ alone, `spread_of_inputs`; `asymmetry`, the norm of W's antisymmetric part over W's;
    `rate`, W's mean eigenvalue over the rate of gradient descent preconditioned by Σ⁻¹ that is best
    for b steps; also `input_values`, the norm of u over that of A; `over_theory` and
    `over_descent`, the error at b over that of b steps of this method and of plain gradient descent
    at its best rate.
    """
    found = [_group(group, settings) for group in grouped(runs)]
    groups, panels = ([each[part] for each in found] for part in (0, 1))
    return {"prompts": settings.prompts, "groups": groups, "panels": panels}


def _group(group: SeedGroup, settings: EvaluationConfig) -> tuple[dict[str, Any], Panel]:
    task, b = group.task, group.b
    covariance = _covariance(task)
    loops = resolved(group.runs[0], settings).max_loops or b
    prompts, other_prompts = (
        evaluation_prompts(task, settings.prompts, group.config.task.points, seed)
        for seed in (settings.seed, settings.seed + 1)
    )
    outputs, pairs = prompts.ys.double().numpy()[:, -1], prompts.xs.shape[1] - 1
    steps, rate = _solvers(prompts, other_prompts, covariance, b, loops)

    def errors(values: Floats) -> Floats:
        """Over the variance of y, [seeds, prompts, loops]."""
        return np.square(values - outputs).swapaxes(1, 2) / task.divisor

    models = errors(unrolled(group, prompts, settings, loops)[..., -1])
    solvers = {name: errors(values[None]) for name, values in steps.items()}

    def over(solver: str) -> Estimate:
        both = [models[..., b - 1], solvers[solver][..., b - 1]]
        return estimate(both, settings, one_over_other, log=True, trained=(True, False))

    parts = [_of_run(run, covariance) for run in group.runs]
    singular_values = np.mean([part["singular_values"] for part in parts], axis=0)
    learned = {
        "label": group.label,
        "b": b,
        "singular_values": singular_values.tolist(),
        "spread_of_inputs": float(np.linalg.cond(covariance)),
        **{
            name: over_runs([part[name] for part in parts])
            for name in ("spread", "asymmetry", "input_values")
        },
        "rate": over_runs([part["mean"] / (rate * pairs) for part in parts]),
        "over_theory": over("preconditioned"),
        "over_descent": over("gradient_descent"),
    }
    return learned, Panel(
        f"preconditioner-{file_name(group.label)}",
        f"{group.label} beside preconditioned gradient descent",
        "loop, or step of a solver",
        SQUARED_ERROR,
        range(1, loops + 1),
        beside_solvers(group, models, solvers, _LABELS, settings),
        log="y",
    )


def _solvers(
    prompts: Prompts, other_prompts: Prompts, covariance: Floats, b: int, loops: int
) -> tuple[dict[str, Floats], float]:
    """Predictions [loops, B] for the last query of each method's steps; and the preconditioned
    one's rate. Rates are the best for b steps on the other prompts."""
    steps = range(1, loops + 1)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors / np.sqrt(values)) @ vectors.T  # x of covariance I are those times this

    def pairs(prompts: Prompts, transform: Floats) -> tuple[Floats, Floats]:
        return prompts.xs.double().numpy() @ transform, prompts.ys.double().numpy()

    results, rate = {}, 0.0
    # Descent on whitened inputs is descent preconditioned by the inverse covariance.
    for name, transform in (("gradient_descent", np.eye(len(root))), ("preconditioned", root)):
        other_xs, other_ys = pairs(other_prompts, transform)
        rate = best_rate(normal_equations(other_xs, other_ys), other_xs, other_ys, b)
        xs, ys = pairs(prompts, transform)
        descent = gradient_descent(normal_equations(xs, ys), rate)
        results[name] = predictions(xs, descent, steps)[..., -1]
    xs, ys = pairs(prompts, np.eye(len(root)))
    results["newton"] = predictions(xs, newton(normal_equations(xs, ys)), steps)[..., -1]
    return results, rate


def _of_run(run: Run, covariance: Floats) -> dict[str, Any]:
    """What one run learned: see `measure`; and `mean`, W's mean eigenvalue."""
    loop = run.model.loop
    if not isinstance(loop, LinearAttentionLoop):
        raise ConfigError("model", f"must be linear_attention, and {run.path} is another model")
    preconditioner = loop.attention.detach().double().numpy().T
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    whitened = root @ preconditioner @ root
    singular_values = np.linalg.svd(whitened, compute_uv=False)
    u = loop.input_values.detach().double().numpy()

    def over(matrix: Floats, other: Floats) -> float:
        """The norm of a matrix over that of another."""
        return float(np.linalg.norm(matrix)) / max(float(np.linalg.norm(other)), 1e-12)

    return {
        "singular_values": singular_values,
        "spread": float(singular_values[0] / max(singular_values[-1], 1e-12)),
        "mean": float(np.trace(whitened)) / len(whitened),
        "asymmetry": over((whitened - whitened.T) / 2, whitened),
        "input_values": over(u, preconditioner),
    }


def _covariance(task: Task) -> Floats:
    """The covariance that all prompts share; ConfigError where each has its own."""
    if isinstance(task, ConditionedLinear):
        if task.varied or task.rotated:
            raise ConfigError("task", "must have varied=false and rotated=false: one covariance")
        return np.asarray(task.covariance().double().numpy())
    if type(task) is Linear:
        return np.eye(task.dims)
    raise ConfigError("task", f"must be linear or conditioned_linear, got {task.name}")


claim(
    "linear_attention_learns_inverse_covariance",
    "Looped linear attention learns a preconditioner close to the inverse of the inputs' "
    "covariance.",
    source=_GATMIRY,
    quantity="condition number of the inputs' covariance as preconditioned, where that of the "
    "inputs is 10",
    line=2.0,  # 10 is no preconditioner, 1 the exact inverse; 3.2 would be half of the way in logs
    holds_if="below",
    published="close to 1 for long prompts",
)(lambda evidence: _learned(evidence, "spread"))

claim(
    "linear_attention_reaches_preconditioned_descent",
    "After its b loops looped linear attention is as good as b steps of gradient descent "
    "preconditioned by the inverse covariance, at the best rate for b steps.",
    source=_GATMIRY,
    quantity="error at the last query over that of preconditioned gradient descent",
    line=1.25,  # the margin that every 'as good as' of these experiments has
    holds_if="below",
    published="the global minimiser is this method",
)(lambda evidence: _learned(evidence, "over_theory"))

claim(
    "linear_attention_beats_plain_descent",
    "After its b loops looped linear attention has less than half the error of b steps of plain "
    "gradient descent at its best rate.",
    source=_GATMIRY,
    quantity="error at the last query over that of plain gradient descent",
    line=0.5,
    holds_if="below",
)(lambda evidence: _learned(evidence, "over_descent"))


def _learned(evidence: Evidence, key: str) -> Estimate:
    """What the loop of linear attention with the fewest loops in training learned: the more loops,
    the less they need a preconditioner."""
    group = min(measured_groups(evidence, "preconditioner"), key=lambda group: group["b"])
    evidence.where(injection="linear_attention", b=group["b"])
    return Estimate.read(group[key])
