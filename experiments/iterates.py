"""Each loop of trained models beside the iterates of gradient descent, conjugate gradients and
Newton's method on the same prompts: which iterate is nearest (arXiv 2306.00297, 2310.17086)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines import iterates as solver
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.groups import Group, labelled
from looplab.evaluation.results import unit
from looplab.evaluation.statistics import Estimate, Statistic
from looplab.show.panel import Curve, Panel, file_name
from looplab.tasks import Prompts
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .evidence import Evidence, of_group
from .measuring import (
    BESIDE_SOLVERS,
    band,
    bands_by_loop,
    by_loop,
    estimate,
    unrolled,
)

METHODS = {
    "gradient_descent": "gradient descent, one rate",
    "conjugate_gradients": "conjugate gradients",
    "newton": "Newton's method",
}
_SLOW = tuple(sorted({*range(65), *np.geomspace(64, 1024, 49).round().astype(int).tolist()}))
_STEPS = dict.fromkeys(METHODS, tuple(range(65)))
_STEPS["gradient_descent"] = _SLOW


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Compare every loop of each run with every iterate, on `settings.prompts` prompts of
    `settings.seed`: runs of linear functions without noise. The nearest iterate is the one whose
    errors over all prefixes of a prompt have the largest cosine with the model's, mean over
    prompts. The single rate of gradient descent is the best for b steps, chosen on other prompts.

    Each of the `groups` has by each of the `methods`, over the loops in which the error falls (see
    `_falling`): `per_loop`, the slope of the nearest iterate; `acceleration`, its growth in the
    second half of these loops over that in the first (1: linear in the loop); and `nearer`, by how
    much the mean cosine is more than that of gradient descent with one rate. By the loop they have
    the number of the `nearest` iterate and its `cosine`; and the group its errors beside those of
    the iterates, as `bands_by_loop` has them.
    """
    return {"groups": [_group(label, group, settings) for label, group in labelled(runs)]}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Of each group the nearest iterates, their cosines, and errors beside the solvers'."""
    drawn = []
    for group in found["groups"]:
        axis = unit(group["family"])
        file, title = file_name(group["label"]), f"{group['label']}, by {axis}"
        near, how_near = _by_method(group, "nearest"), _by_method(group, "cosine")
        x = range(1, len(near[0].mean) + 1)
        cosine = "cosine of its errors with the model's"
        beside = f"{group['label']} beside the solvers' steps"
        drawn += [
            Panel(f"nearest-{file}", title, axis, "nearest iterate", x, near, log="y"),
            Panel(f"cosine-{file}", title, axis, cosine, x, how_near),
            by_loop("errors", beside, BESIDE_SOLVERS, group),
        ]
    return drawn


def _by_method(group: Mapping[str, Any], key: str) -> list[Curve]:
    """What a group's methods have by the loop under this key."""
    return [
        Curve.of(METHODS[name], name, method[key], name=name, b=group["b"])
        for name, method in group["methods"].items()
    ]


def _group(label: str, group: Group[Run], settings: EvaluationConfig) -> dict[str, Any]:
    task, b = group.runs[0].task, group.b
    loops = resolved(group.runs[0], settings).max_loops or b
    prompts, other_prompts = (
        evaluation_prompts(task, settings.prompts, group.config.task.points, seed)
        for seed in (settings.seed, settings.seed + 1)
    )
    models = unrolled(group, prompts, settings, loops)
    iterates = solved(prompts, other_prompts, _STEPS, b)
    outputs = prompts.ys.double().numpy()

    def errors(values: Floats) -> Floats:
        """Errors of the last query over the variance of y, [seeds, B, loops]."""
        return np.square(values[..., -1] - outputs[:, -1]).swapaxes(1, 2) / task.divisor

    zero = float(np.square(outputs[:, -1]).mean()) / task.divisor
    first, last = _falling(errors(models).mean((0, 1))[:b], zero)
    cosines = {name: _cosines(models, steps, outputs) for name, steps in iterates.items()}
    methods = {}
    for name, own in cosines.items():
        both = own, cosines["gradient_descent"]
        methods[name] = {
            **_over_loops(name, both, slice(first - 1, last), settings),
            "nearest": band([own], settings, _nearest(name), log=False),
            "cosine": band([own], settings, lambda means: np.asarray(means[0].max(-1)), log=False),
        }
    shown = min(loops, 64)  # every method has its iterates up to there
    solvers = {
        name: (METHODS[name], errors(steps[None, 1 : shown + 1]))
        for name, steps in iterates.items()
    }
    by_loops = bands_by_loop(label, group, errors(models[:, :shown]), settings, solvers)
    return {**by_loops, "methods": methods}


def solved(
    prompts: Prompts, other_prompts: Prompts, steps: Mapping[str, Collection[int]], b: int
) -> dict[str, Floats]:
    """The predictions of each method's iterates of these numbers, [steps, B, n]; gradient descent
    has the rate that is the best for b steps on the other prompts."""
    (xs, ys), (other_xs, other_ys) = (
        (each.xs.double().numpy(), each.ys.double().numpy()) for each in (prompts, other_prompts)
    )
    equations = solver.normal_equations(xs, ys)
    others = solver.normal_equations(other_xs, other_ys)
    weights = {
        "gradient_descent": solver.gradient_descent(
            equations, solver.best_rate(others, other_xs, other_ys, b)
        ),
        "conjugate_gradients": solver.conjugate_gradients(equations),
        "newton": solver.newton(equations),
    }
    return {name: solver.predictions(xs, weights[name], each) for name, each in steps.items()}


def _over_loops(
    method: str, cosines: tuple[Floats, Floats], loops: slice, settings: EvaluationConfig
) -> dict[str, Estimate]:
    """The numbers of a method over some loops, from cosines [seeds, B, loops, steps], its own and
    those of gradient descent with one rate."""
    nearest, own = _nearest(method), cosines[0].shape[-1]

    def slope(means: Sequence[Floats]) -> Floats:
        """The slope of the nearest step over the loops, by least squares."""
        values = nearest(means)[..., loops]
        places = np.arange(values.shape[-1]) - (values.shape[-1] - 1) / 2
        return np.asarray((values * places).sum(-1) / max(np.square(places).sum(), 1))

    def acceleration(means: Sequence[Floats]) -> Floats:
        """Growth in the second half of the loops over that in the first."""
        values = nearest(means)[..., loops]
        places = values.shape[-1]
        middle = (values[..., (places - 1) // 2] + values[..., places // 2]) / 2
        growth = np.maximum(middle - values[..., 0], 0.5)
        return np.asarray((values[..., -1] - middle) / growth)

    def nearer(means: Sequence[Floats]) -> Floats:
        ours, others = means[0][..., :own].max(-1), means[0][..., own:].max(-1)
        return np.asarray((ours - others)[..., loops].mean(-1))

    both = np.concatenate(cosines, axis=-1)  # paired by seed and prompt
    return {
        "per_loop": estimate([cosines[0]], settings, slope),
        "acceleration": estimate([cosines[0]], settings, acceleration),
        "nearer": estimate([both], settings, nearer),
    }


def _nearest(method: str) -> Statistic:
    """The statistic of cosines [..., loops, steps] that is the number of the nearest iterate."""
    numbers = np.array(_STEPS[method], np.float64)
    return lambda means: numbers[means[0].argmax(-1)]


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


def beside_most_loops(evidence: Evidence, method: str, quantity: str) -> Estimate:
    """A quantity of a method's iterates beside the looped model with the most loops in training."""
    return of_group(evidence, "iterates", "methods", method, quantity, most="b", family="looped")
