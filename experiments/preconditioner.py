"""The preconditioner that looped linear attention learned beside theory, and its errors by loop
beside gradient descent, plain and preconditioned, and Newton's method (arXiv 2410.08292).

result = measure([load_run(path)], EvaluationConfig(prompts=512))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, cast

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
from looplab.evaluation.panel import Curve, Panel, file_name
from looplab.models.loops.linear_attention import LinearAttentionLoop
from looplab.tasks import Prompts, Task
from looplab.tasks.conditioned_linear import ConditionedLinear
from looplab.tasks.linear import Linear
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .claims import Estimate, Evidence, NotMeasured, claim
from .evidence import estimate_of
from .measuring import (
    EstimateJson,
    GroupsOnPrompts,
    SeedGroup,
    band,
    estimate,
    grouped,
    over_runs,
    unrolled,
)

_LABELS = {
    "gradient_descent": "gradient descent",
    "preconditioned": "preconditioned by the inverse covariance",
    "newton": "Newton's method",
}


class Learned(TypedDict):
    """What runs of one kind learned, A = attentionᵀ: the singular values of W = Σ^½ A Σ^½, all the
    same where A is a multiple of Σ⁻¹ (mean over seeds, falling); `spread`, the largest over the
    least, and the same of Σ alone; `asymmetry`, the norm of W's antisymmetric part over W's;
    `input_values`, the norm of u over that of A; `rate`, W's mean eigenvalue over the rate of
    gradient descent preconditioned by Σ⁻¹ that is best for b steps; `over_theory` and
    `over_descent`, the error at b over that of b steps of this method and of plain gradient
    descent at its best rate."""

    label: str
    b: int
    singular_values: list[float]
    spread: EstimateJson
    spread_of_inputs: float
    asymmetry: EstimateJson
    input_values: EstimateJson
    rate: EstimateJson
    over_theory: EstimateJson
    over_descent: EstimateJson


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> GroupsOnPrompts[Learned]:
    """The learned preconditioner of each run. ConfigError for a model that is no loop of linear
    attention, and for a task whose prompts do not share a covariance."""
    groups, panels = [], []
    for group in grouped(runs):
        learned, picture = _group(group, settings)
        groups.append(learned)
        panels.append(picture)
    return {"prompts": settings.prompts, "groups": groups, "panels": panels}


def _group(group: SeedGroup, settings: EvaluationConfig) -> tuple[Learned, Panel]:
    run = group.runs[0]
    task, b, seed = run.task, trained_loops(run.config), settings.seed
    covariance = _covariance(task)
    loops = resolved(run, settings).max_loops or b
    prompts, other_prompts = (
        evaluation_prompts(task, settings.prompts, run.config.task.points, prompts_seed)
        for prompts_seed in (seed, seed + 1)
    )
    outputs, pairs = prompts.ys.double().numpy()[:, -1], prompts.xs.shape[1] - 1
    steps, rate = _solvers(prompts, other_prompts, covariance, b, loops)
    models = unrolled(group.runs, prompts, loops, settings.batch_size)
    errors: dict[str, Floats] = {}  # [seeds, prompts, loops]
    for name, values in {"model": models[..., -1], **steps}.items():
        squares = np.square(np.atleast_3d(values.T).T - outputs) / task.divisor
        errors[name] = squares.swapaxes(1, 2)
    parts = [_read(run, covariance) for run in group.runs]

    def over(solver: str) -> EstimateJson:
        both = [errors["model"][..., b - 1 : b], errors[solver][..., b - 1 : b]]
        return estimate(
            both,
            lambda means: (means[0] / means[1])[..., 0],
            settings,
            log=True,
            trained=(True, False),
        )

    singular_values = np.mean([part.singular_values for part in parts], axis=0)
    learned: Learned = {
        "label": group.label,
        "b": b,
        "singular_values": [float(value) for value in singular_values],
        "spread": over_runs([part.spread for part in parts]),
        "spread_of_inputs": float(np.linalg.cond(covariance)),
        "asymmetry": over_runs([part.asymmetry for part in parts]),
        "input_values": over_runs([part.input_values for part in parts]),
        "rate": over_runs([part.mean / (rate * pairs) for part in parts]),
        "over_theory": over("preconditioned"),
        "over_descent": over("gradient_descent"),
    }
    curves = []
    for name, values in errors.items():
        is_model = name == "model"
        label, kind = (group.label, group.family) if is_model else (_LABELS[name], name)
        mean = band([values], lambda means: means[0], settings)
        curves.append(Curve.of(label, kind, mean, name=name, b=b if is_model else None))
    return learned, Panel(
        f"preconditioner-{file_name(group.label)}",
        f"{group.label} beside preconditioned gradient descent",
        "loop, or step of a solver",
        "squared error over the variance of y",
        range(1, loops + 1),
        curves,
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


class _Parts(NamedTuple):
    """Of one run: the singular values of Σ^½ A Σ^½, its mean eigenvalue, and the sizes of what the
    theory has none of."""

    singular_values: Floats
    mean: float
    asymmetry: float
    input_values: float

    @property
    def spread(self) -> float:
        return float(self.singular_values[0] / max(self.singular_values[-1], 1e-12))


def _read(run: Run, covariance: Floats) -> _Parts:
    loop = run.model.loop
    if not isinstance(loop, LinearAttentionLoop):
        raise ConfigError("model", f"must be linear_attention, and {run.path} is another model")
    preconditioner = loop.attention.detach().double().numpy().T
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values)) @ vectors.T
    whitened = root @ preconditioner @ root
    u = loop.input_values.detach().double().numpy()
    size, whitened_size = (
        max(float(np.linalg.norm(matrix)), 1e-12) for matrix in (preconditioner, whitened)
    )
    return _Parts(
        np.linalg.svd(whitened, compute_uv=False),
        float(np.trace(whitened)) / len(whitened),
        float(np.linalg.norm(whitened - whitened.T)) / 2 / whitened_size,
        float(np.linalg.norm(u)) / size,
    )


def _covariance(task: Task) -> Floats:
    """The covariance that all prompts share; ConfigError where each has its own."""
    if isinstance(task, ConditionedLinear):
        if task.varied or task.rotated:
            raise ConfigError("task", "must have varied=false and rotated=false: one covariance")
        return cast(Floats, task.covariance().double().numpy())
    if type(task) is Linear:
        return np.eye(task.dims)
    raise ConfigError("task", f"must be linear or conditioned_linear, got {task.name}")


_GATMIRY = "arXiv 2410.08292, theorem on the global minimiser"


@claim(
    "linear_attention_learns_inverse_covariance",
    "Looped linear attention learns a preconditioner close to the inverse of the inputs' "
    "covariance.",
    source=_GATMIRY,
    quantity="condition number of the inputs' covariance as preconditioned, where that of the "
    "inputs is 10",
    line=2.0,  # 10 is no preconditioner, 1 the exact inverse; 3.2 would be half of the way in logs
    holds_if="below",
    published="close to 1 for long prompts",
)
def linear_attention_learns_inverse_covariance(evidence: Evidence) -> Estimate:
    return estimate_of(_learned(evidence)["spread"])


@claim(
    "linear_attention_reaches_preconditioned_descent",
    "After its b loops looped linear attention is as good as b steps of gradient descent "
    "preconditioned by the inverse covariance, at the best rate for b steps.",
    source=_GATMIRY,
    quantity="error at the last query over that of preconditioned gradient descent",
    line=1.25,  # the margin that every 'as good as' of these experiments has
    holds_if="below",
    published="the global minimiser is this method",
)
def linear_attention_reaches_preconditioned_descent(evidence: Evidence) -> Estimate:
    return estimate_of(_learned(evidence)["over_theory"])


@claim(
    "linear_attention_beats_plain_descent",
    "After its b loops looped linear attention has less than half the error of b steps of plain "
    "gradient descent at its best rate.",
    source=_GATMIRY,
    quantity="error at the last query over that of plain gradient descent",
    line=0.5,
    holds_if="below",
)
def linear_attention_beats_plain_descent(evidence: Evidence) -> Estimate:
    return estimate_of(_learned(evidence)["over_descent"])


def _learned(evidence: Evidence) -> Any:
    """What the loop of linear attention with the fewest loops in training learned: the more loops,
    the less they need a preconditioner."""
    if not (groups := evidence.result("preconditioner")["groups"]):
        raise NotMeasured("no loop of linear attention was measured")
    group = min(groups, key=lambda group: group["b"])
    evidence.where(injection="linear_attention", b=group["b"])
    return group
