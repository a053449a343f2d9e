"""Each loop of trained models beside the iterates of gradient descent, conjugate gradients and
Newton's method on the same prompts: which iterate is nearest (arXiv 2306.00297, 2310.17086).

result = measure([load_run("shipped/linear")], EvaluationConfig(prompts=256))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines.iterates import (
    best_rate,
    best_rates,
    conjugate_gradients,
    gradient_descent,
    newton,
    normal_equations,
    predictions,
)
from looplab.evaluation.bootstrap import Band, Floats
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.panel import Curve, Panel, file_name
from looplab.tasks import Prompts
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
    penalty,
    unrolled,
)

METHODS = {
    "gradient_descent": "gradient descent, one rate",
    "gradient_descent_own": "gradient descent, each prompt's best rate",
    "conjugate_gradients": "conjugate gradients",
    "newton": "Newton's method",
}
_SLOW = tuple(sorted({*range(65), *np.geomspace(64, 1024, 49).round().astype(int).tolist()}))
_STEPS = dict.fromkeys(METHODS, tuple(range(65)))
_STEPS |= {"gradient_descent": _SLOW, "gradient_descent_own": _SLOW}


class NearestIterate(TypedDict):
    """Of one method, by loop: its nearest iterate, how near it is, and the same at the last query.

    `nearest` and `cosine`: the iterate whose errors over all prefixes of a prompt have the largest
    cosine with the model's (mean over prompts), and that cosine. `nearest_at_last` and `distance`:
    the iterate with the least mean squared difference of predictions at the last query, over the
    variance of y. Over the loops in which the error falls (`GroupResult`): `per_loop`, the slope of
    `nearest`; `acceleration`, its growth in the second half of these loops over that in the first
    (1: linear in the loop); `mean_cosine`, and `nearer`, by how much that is more than for gradient
    descent with one rate.
    """

    nearest: Band
    cosine: Band
    nearest_at_last: Band
    distance: Band
    per_loop: EstimateJson
    acceleration: EstimateJson
    mean_cosine: EstimateJson
    nearer: EstimateJson


class GroupResult(TypedDict):
    """Runs of one kind: loops 1, 2, …, and those in which the error falls, from `first`, the first
    loop with less than half of the error of predicting zero, to `last`, the first whose error is
    within a quarter of the least up to b."""

    label: str
    family: str
    b: int
    first: int
    last: int
    loops: list[int]
    methods: dict[str, NearestIterate]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> GroupsOnPrompts[GroupResult]:
    """Compare every loop of each run with every iterate, on `settings.prompts` prompts of
    `settings.seed`. The single rate of gradient descent is the best for b steps, chosen on other
    prompts. ConfigError for a task other than dense linear functions."""
    groups, panels = [], []
    for group in grouped(runs):
        result, group_panels = _group(group, settings)
        groups.append(result)
        panels += group_panels
    return {"prompts": settings.prompts, "groups": groups, "panels": panels}


def _group(group: SeedGroup, settings: EvaluationConfig) -> tuple[GroupResult, list[Panel]]:
    run = group.runs[0]
    task, b = run.task, trained_loops(run.config)
    loops = resolved(run, settings).max_loops or b
    prompts, other_prompts = (
        evaluation_prompts(task, settings.prompts, run.config.task.points, seed)
        for seed in (settings.seed, settings.seed + 1)
    )
    models = unrolled(group.runs, prompts, loops, settings.batch_size)
    iterates = _iterates(prompts, other_prompts, penalty(task), b)
    outputs = prompts.ys.double().numpy()
    squares = np.square(models[..., -1] - outputs[:, -1]) / task.divisor
    first, last = _falling(
        squares.mean((0, 2))[:b], float(np.square(outputs[:, -1]).mean()) / task.divisor
    )
    result: GroupResult = {
        "label": group.label,
        "family": group.family,
        "b": b,
        "first": first,
        "last": last,
        "loops": list(range(1, loops + 1)),
        "methods": {},
    }
    cosines = {name: _cosines(models, steps, outputs) for name, steps in iterates.items()}
    for method, steps in iterates.items():
        distances = _distances(models[..., -1], steps[..., -1]) / task.divisor
        numbers = np.array(_STEPS[method], np.float64)
        both = (cosines[method], cosines["gradient_descent"])
        result["methods"][method] = _nearest(both, distances, numbers, (first, last), settings)
    shown = min(loops, 64)  # every method has its iterates up to there
    solvers = {method: steps[None, 1 : shown + 1] for method, steps in iterates.items()}
    curves = []
    for name, values in {"model": models[:, :shown], **solvers}.items():
        squares = np.square(values[..., -1] - outputs[:, -1]).swapaxes(1, 2) / task.divisor
        errors = band([squares], lambda means: means[0], settings)
        is_model = name == "model"
        label, kind = (group.label, group.family) if is_model else (METHODS[name], name)
        curves.append(Curve.of(label, kind, errors, name=name, b=b if is_model else None))
    return result, _panels(result, curves)


def _iterates(
    prompts: Prompts, other_prompts: Prompts, penalty: float, b: int
) -> dict[str, Floats]:
    """The predictions of each method's iterates, [steps, B, n]."""
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    other_xs, other_ys = other_prompts.xs.double().numpy(), other_prompts.ys.double().numpy()
    equations = normal_equations(xs, ys, penalty)
    rate = best_rate(normal_equations(other_xs, other_ys, penalty), other_xs, other_ys, b)
    weights: dict[str, Iterator[Floats]] = {
        "gradient_descent": gradient_descent(equations, rate),
        "gradient_descent_own": gradient_descent(equations, best_rates(equations)),
        "conjugate_gradients": conjugate_gradients(equations),
        "newton": newton(equations),
    }
    return {method: predictions(xs, weights[method], _STEPS[method]) for method in METHODS}


def _nearest(
    cosines: tuple[Floats, Floats],
    distances: Floats,
    numbers: Floats,
    window: tuple[int, int],
    settings: EvaluationConfig,
) -> NearestIterate:
    """Of one method from cosines [seeds, B, loops, steps], its own and those of gradient descent
    with one rate, and distances of the same shape; `numbers` [steps] are those of the iterates."""
    own = cosines[0].shape[-1]
    loops = slice(window[0] - 1, window[1])

    def nearest(means: Sequence[Floats]) -> Floats:
        return np.asarray(numbers[means[0][..., :own].argmax(-1)])

    def cosine(means: Sequence[Floats]) -> Floats:
        return np.asarray(means[0][..., :own].max(-1))

    def nearer(means: Sequence[Floats]) -> Floats:
        other = means[0][..., own:].max(-1)
        return np.asarray((cosine(means) - other)[..., loops].mean(-1))

    both = [np.concatenate(cosines, axis=-1)]  # paired by seed and prompt
    return {
        "nearest": band([cosines[0]], nearest, settings).to_json(),
        "cosine": band([cosines[0]], cosine, settings).to_json(),
        "nearest_at_last": band(
            [distances], lambda means: numbers[means[0].argmin(-1)], settings
        ).to_json(),
        "distance": band([distances], lambda means: means[0].min(-1), settings).to_json(),
        "per_loop": estimate(
            [cosines[0]], lambda means: _slope(nearest(means)[..., loops]), settings
        ),
        "acceleration": estimate(
            [cosines[0]], lambda means: _acceleration(nearest(means)[..., loops]), settings
        ),
        "mean_cosine": estimate(
            [cosines[0]], lambda means: cosine(means)[..., loops].mean(-1), settings
        ),
        "nearer": estimate(both, nearer, settings),
    }


def _slope(values: Floats) -> Floats:
    """The least-squares slope along the last axis."""
    places = np.arange(values.shape[-1])
    centred = places - places.mean()
    return np.asarray((values * centred).sum(-1) / max(np.square(centred).sum(), 1))


def _acceleration(values: Floats) -> Floats:
    """Growth in the second half of the last axis over that in the first."""
    places = values.shape[-1]
    middle = (values[..., (places - 1) // 2] + values[..., places // 2]) / 2
    growth = np.maximum(middle - values[..., 0], 0.5)
    return np.asarray((values[..., -1] - middle) / growth)


def _falling(errors: Floats, zero: float) -> tuple[int, int]:
    """The first and the last loop in which the error falls, from those of loops 1 … b; at least
    three, where there are as many."""
    b = len(errors)
    first = int(np.argmax(errors < zero / 2)) + 1 if (errors < zero / 2).any() else 1
    last = int(np.argmax(errors <= 1.25 * errors.min())) + 1
    last = min(max(last, first + 2), b)
    return max(min(first, last - 2), 1), last


def _cosines(models: Floats, iterates: Floats, outputs: Floats) -> Floats:
    """Cosines [seeds, B, loops, steps] of the errors of models [seeds, loops, B, n] with those of
    iterates [steps, B, n]; an iterate that has diverged beyond all numbers is opposite to
    everything."""
    errors = iterates[:, :, 1:] - outputs[:, 1:]  # without examples all predict alike
    with np.errstate(over="ignore", invalid="ignore"):
        errors /= np.linalg.norm(errors, axis=2, keepdims=True)
    found = []
    for model in models:
        own = model[:, :, 1:] - outputs[:, 1:]
        lengths = np.linalg.norm(own, axis=2, keepdims=True)
        own /= np.where(lengths > 0, lengths, 1)
        with np.errstate(invalid="ignore"):
            found.append(own.transpose(1, 0, 2) @ errors.transpose(1, 2, 0))
    return np.asarray(np.nan_to_num(np.stack(found), nan=-1.0), np.float64)


def _distances(models: Floats, iterates: Floats) -> Floats:
    """Squared differences [seeds, B, loops, steps] of predictions [seeds, loops, B] and [steps, B];
    of an iterate that has diverged beyond all numbers, a number larger than all."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.square(models.swapaxes(1, 2)[..., None] - iterates.T[:, None, :])
    return np.asarray(np.nan_to_num(squares, nan=1e300, posinf=1e300), np.float64)


def _panels(result: GroupResult, errors: list[Curve]) -> list[Panel]:
    """The nearest iterate and its cosine by loop, and errors at the last query by loop or step."""
    file, title = file_name(result["label"]), f"{result['label']}, by loop"

    def by_loop(part: Literal["nearest", "cosine"]) -> list[Curve]:
        return [
            Curve.of(METHODS[name], name, nearest[part], name=name, b=result["b"])
            for name, nearest in result["methods"].items()
        ]

    cosine = ("loop", "cosine of its errors with the model's")
    error = ("loop, or step of a solver", "squared error over the variance of y")
    return [
        Panel(
            f"nearest-{file}", title, "loop", "nearest iterate", result["loops"],
            by_loop("nearest"), log="y",
        ),
        Panel(f"cosine-{file}", title, *cosine, result["loops"], by_loop("cosine")),
        Panel(
            f"errors-{file}", f"{result['label']} beside the solvers' steps", *error,
            range(1, len(errors[0].mean) + 1), errors, log="y",
        ),
    ]  # fmt: skip


_FU = "arXiv 2310.17086, section 4"
_ACCELERATION = (
    "growth of the nearest step of {} in the second half of the loops in which the error falls, "
    "over that in the first half"
)


@claim(
    "loop_makes_newton_steps",
    "Each loop of a looped model does the work of more than one step of Newton's method.",
    source=_FU,
    quantity="slope of the nearest Newton step over the loops in which the error falls",
    line=1.0,  # one step a loop is what a loop that computed M ← 2 M − M A M would make
    holds_if="above",
    published="about 3 steps a layer, of a standard transformer's middle layers",
)
def loop_makes_newton_steps(evidence: Evidence) -> Estimate:
    return estimate_of(_beside(evidence, "newton")["per_loop"])


@claim(
    "newton_step_is_linear",
    "The Newton step that is nearest to a loop grows linearly with the loop, or more slowly.",
    source=_FU,
    quantity=_ACCELERATION.format("Newton's method"),
    line=1.25,  # 1 is linear; the same line parts it from gradient descent below
    holds_if="below",
    published="linear in the layer",
)
def newton_step_is_linear(evidence: Evidence) -> Estimate:
    return estimate_of(_beside(evidence, "newton")["acceleration"])


@claim(
    "descent_step_accelerates",
    "The step of gradient descent that is nearest to a loop grows faster than linearly.",
    source=_FU,
    quantity=_ACCELERATION.format("gradient descent"),
    line=1.25,
    holds_if="above",
    published="exponential in the layer",
)
def descent_step_accelerates(evidence: Evidence) -> Estimate:
    return estimate_of(_beside(evidence, "gradient_descent")["acceleration"])


@claim(
    "newton_nearer_than_descent",
    "The loops of a looped model err as Newton's iterates do, more than as those of gradient "
    "descent with one rate for all prompts.",
    source="arXiv 2306.00297 (preconditioned gradient descent) against 2310.17086 (Newton)",
    quantity="cosine of errors with the nearest Newton iterate less that with the nearest iterate "
    "of gradient descent",
    line=0.0,
    holds_if="above",
    published="Newton is nearer",
)
def newton_nearer_than_descent(evidence: Evidence) -> Estimate:
    return estimate_of(_beside(evidence, "newton")["nearer"])


def _beside(evidence: Evidence, method: str) -> Any:
    """A method's iterates beside the looped model with the most loops in training."""
    found = evidence.result("iterates")["groups"]
    evidence.where(family="looped")  # whose seeds and steps the verdict rests on
    groups = [group for group in found if group["family"] == "looped"]
    if not groups:
        raise NotMeasured("no looped model was compared with iterates")
    return max(groups, key=lambda group: group["b"])["methods"][method]
