"""Each loop of trained models beside the iterates of gradient descent, conjugate gradients and
Newton's method on the same prompts: which iterate is nearest (arXiv 2306.00297, 2310.17086).

result = measure([load_run("shipped/linear")], EvaluationConfig(prompts=256))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

import numpy as np

from reloop.conf.schema import EvaluationConfig
from reloop.evaluation.baselines.iterates import (
    best_rate,
    best_rates,
    conjugate_gradients,
    gradient_descent,
    newton,
    normal_equations,
    predictions,
)
from reloop.evaluation.bootstrap import Band, Floats
from reloop.evaluation.errors import evaluation_prompts
from reloop.evaluation.evaluate_run import resolved
from reloop.experiments.named.results import Curve, Panel
from reloop.tasks import Prompts
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.run import Run

from .common import (
    EstimateJson,
    Group,
    curve,
    estimate,
    file_name,
    grouped,
    over_seeds,
    penalty,
    prompt_counts,
    resampled,
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
    variance of y. Over the loops that count in the loss: `per_loop`, the slope of `nearest`;
    `growth`, the factor from the first of these loops to the last, over that of the loops
    themselves (1: proportional to the loop); `mean_cosine`, and `nearer`, by how much that is more
    than for gradient descent with one rate.
    """

    nearest: Band
    cosine: Band
    nearest_at_last: Band
    distance: Band
    per_loop: EstimateJson
    growth: EstimateJson
    mean_cosine: EstimateJson
    nearer: EstimateJson


class GroupResult(TypedDict):
    """Runs of one kind: loops 1, 2, … and those of them that count in the loss, from `first` to
    `b`; a standard model's are its last two thirds."""

    label: str
    family: str
    b: int
    first: int
    loops: list[int]
    methods: dict[str, NearestIterate]


class IteratesResult(TypedDict):
    """All groups, and the pictures."""

    prompts: int
    groups: list[GroupResult]
    panels: list[Panel]


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> IteratesResult:
    """Compare every loop of each run with every iterate, on `settings.prompts` prompts of
    `settings.seed`. The single rate of gradient descent is the best for b steps, chosen on other
    prompts. ConfigError for a task other than dense linear functions."""
    groups, panels = [], []
    for group in grouped(runs):
        result, group_panels = _group(group, settings)
        groups.append(result)
        panels += group_panels
    return {"prompts": settings.prompts, "groups": groups, "panels": panels}


def _group(group: Group, settings: EvaluationConfig) -> tuple[GroupResult, list[Panel]]:
    run = group.runs[0]
    task, b = run.task, trained_loops(run.config)
    first = max(b - min(run.config.loops.T, b) + 1 if group.family == "looped" else b // 3 + 1, 1)
    loops = resolved(run, settings).max_loops or b
    prompts, other_prompts = (
        evaluation_prompts(task, settings.prompts, run.config.task.points, seed)
        for seed in (settings.seed, settings.seed + 1)
    )
    models = np.stack([unrolled(r, prompts, loops, settings.batch_size) for r in group.runs])
    iterates = _iterates(prompts, other_prompts, penalty(task), b)
    outputs = prompts.ys.double().numpy()
    result: GroupResult = {
        "label": group.label,
        "family": group.family,
        "b": b,
        "first": first,
        "loops": list(range(1, loops + 1)),
        "methods": {},
    }
    mean_cosines: dict[str, Floats] = {}
    for method, steps in iterates.items():
        result["methods"][method], mean_cosines[method] = _nearest(
            models, steps, outputs, task.divisor, _STEPS[method], (first, b), settings
        )
    for method, values in mean_cosines.items():
        nearer = estimate(values - mean_cosines["gradient_descent"], settings.seed)
        result["methods"][method]["nearer"] = nearer
    shown = min(loops, 64)  # every method has its iterates up to there
    solvers = {method: steps[None, 1 : shown + 1] for method, steps in iterates.items()}
    curves = []
    for name, values in {"model": models[:, :shown], **solvers}.items():
        squares = np.square(values[..., -1] - outputs[:, -1]).swapaxes(1, 2) / task.divisor
        counts = prompt_counts(len(outputs), settings.resamples, settings.seed)
        errors = over_seeds(resampled(counts, squares), settings.seed)
        is_model = name == "model"
        label, kind = (group.label, group.family) if is_model else (METHODS[name], name)
        curves.append(curve(name, label, kind, errors.to_json(), b if is_model else None))
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
    models: Floats,
    iterates: Floats,
    outputs: Floats,
    divisor: float,
    steps: Sequence[int],
    window: tuple[int, int],
    settings: EvaluationConfig,
) -> tuple[NearestIterate, Floats]:
    """models [seeds, loops, B, n] beside iterates [steps, B, n]; and the mean cosine over the
    window in each resample, [resamples + 1, seeds]."""
    counts = prompt_counts(len(outputs), settings.resamples, settings.seed)
    numbers, seed = np.array(steps, np.float64), settings.seed
    errors = iterates[:, :, 1:] - outputs[:, 1:]  # without examples all predict alike
    with np.errstate(over="ignore", invalid="ignore"):
        errors /= np.linalg.norm(errors, axis=2, keepdims=True)
        cosines = [_cosines(model[:, :, 1:] - outputs[:, 1:], errors) for model in models]
        distances = [_distances(model[:, :, -1], iterates[:, :, -1]) / divisor for model in models]
    similar = resampled(counts, np.stack(cosines))  # [resamples + 1, seeds, loops, steps]
    apart = resampled(counts, np.stack(distances))
    nearest = numbers[similar.argmax(-1)]
    cosine = similar.max(-1)
    first, last = window
    loops = np.arange(first, last + 1)
    part = nearest[..., first - 1 : last]
    centred = loops - loops.mean()
    slope = (part * centred).sum(-1) / max(np.square(centred).sum(), 1)
    growth = part[..., -1] / np.maximum(part[..., 0], 1) / (last / first)
    mean_cosine = cosine[..., first - 1 : last].mean(-1)
    result: NearestIterate = {
        "nearest": over_seeds(nearest, seed).to_json(),
        "cosine": over_seeds(cosine, seed).to_json(),
        "nearest_at_last": over_seeds(numbers[apart.argmin(-1)], seed).to_json(),
        "distance": over_seeds(apart.min(-1), seed).to_json(),
        "per_loop": estimate(slope, seed),
        "growth": estimate(growth, seed),
        "mean_cosine": estimate(mean_cosine, seed),
        "nearer": estimate(mean_cosine * 0, seed),  # until all methods are there
    }
    return result, mean_cosine


def _cosines(model: Floats, units: Floats) -> Floats:
    """Cosines [B, loops, steps] of the model's errors [loops, B, n] with unit vectors [steps, B,
    n]; an iterate that has diverged beyond all numbers is opposite to everything."""
    lengths = np.linalg.norm(model, axis=2, keepdims=True)
    unit = model / np.where(lengths > 0, lengths, 1)
    cosines = unit.transpose(1, 0, 2) @ units.transpose(1, 2, 0)
    return np.asarray(np.nan_to_num(cosines, nan=-1.0), np.float64)


def _distances(model: Floats, iterates: Floats) -> Floats:
    """Squared differences [B, loops, steps] of predictions [loops, B] and [steps, B]."""
    squares = np.square(model.T[:, :, None] - iterates.T[:, None, :])
    return np.asarray(np.nan_to_num(squares, nan=1e300, posinf=1e300), np.float64)


def _panels(result: GroupResult, errors: list[Curve]) -> list[Panel]:
    """The nearest iterate and its cosine by loop, and errors at the last query by loop or step."""
    file = file_name(result["label"])
    parts: tuple[tuple[Literal["nearest", "cosine"], str], ...] = (
        ("nearest", "nearest iterate"),
        ("cosine", "cosine of its errors with the model's"),
    )
    panels: list[Panel] = [
        {
            "name": f"{part}_{file}",
            "title": f"{result['label']}, by loop",
            "x_label": "loop",
            "y_label": text,
            "x": [float(loop) for loop in result["loops"]],
            "log_x": False,
            "log_y": part == "nearest",
            "curves": [
                curve(name, METHODS[name], name, nearest[part], result["b"])
                for name, nearest in result["methods"].items()
            ],
            "levels": {},
        }
        for part, text in parts
    ]
    by_step: Panel = {
        "name": f"errors_{file}",
        "title": f"{result['label']} beside the solvers' steps",
        "x_label": "loop, or step of a solver",
        "y_label": "squared error over the variance of y",
        "x": [float(step + 1) for step in range(len(errors[0]["mean"]))],
        "log_x": False,
        "log_y": True,
        "curves": errors,
        "levels": {},
    }
    return [*panels, by_step]
