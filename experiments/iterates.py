"""Each loop of trained models beside the iterates of gradient descent, conjugate gradients and
Newton's method on the same prompts: which iterate is nearest (arXiv 2306.00297, 2310.17086)."""

from collections.abc import Collection, Mapping, Sequence

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

from .evidence import Evidence, of_group
from .question import (
    BESIDE_SOLVERS,
    Result,
    band,
    bands_by_loop,
    by_loop,
    estimate,
    prompts_of,
    unrolled,
)

METHODS = {
    "gradient_descent": "gradient descent, one rate",
    "conjugate_gradients": "conjugate gradients",
    "newton": "Newton's method",
}
_STEPS = dict.fromkeys(METHODS, tuple(range(65)))
# Gradient descent is the slowest: from 64 on fewer and fewer of its steps.
_STEPS["gradient_descent"] += tuple(np.geomspace(64, 1024, 49).round().astype(int).tolist()[1:])


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
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


def panels(result: Result) -> list[Panel]:
    """Of each group the nearest iterates, their cosines, and errors beside the solvers'."""
    drawn = []
    for group in result["groups"]:
        axis = unit(group["family"])
        label = group["label"]
        file = file_name(label)
        title = f"{label}, by {axis}"
        numbers = _by_method(group, "nearest")
        cosines = _by_method(group, "cosine")
        loops = range(1, len(numbers[0].mean) + 1)
        cosine_axis = "cosine of its errors with the model's"
        drawn.append(
            Panel(f"nearest-{file}", title, axis, "nearest iterate", loops, numbers, log="y")
        )
        drawn.append(Panel(f"cosine-{file}", title, axis, cosine_axis, loops, cosines))
        drawn.append(by_loop("errors", f"{label} beside the solvers' steps", BESIDE_SOLVERS, group))
    return drawn


def _by_method(group: Result, key: str) -> list[Curve]:
    """What a group's methods have by the loop under this key."""
    curves = []
    for name, method in group["methods"].items():
        curves.append(Curve.of(METHODS[name], name, method[key], name=name, b=group["b"]))
    return curves


def _group(label: str, group: Group[Run], settings: EvaluationConfig) -> Result:
    """The numbers and bands of one group; see `measure`."""
    run = group.runs[0]
    b = group.b
    loops = resolved(run, settings).max_loops or b
    prompts = prompts_of(run, settings)
    models = unrolled(group, prompts, settings, loops)
    iterates = solved(prompts, prompts_of(run, settings, others=1), _STEPS, b)
    outputs = prompts.ys.double().numpy()

    def errors(predictions: Floats) -> Floats:
        """Errors of the last query over the variance of y, [seeds, B, loops]."""
        squares = np.square(predictions[..., -1] - outputs[:, -1])
        return squares.swapaxes(1, 2) / run.task.divisor

    zero = float(np.square(outputs[:, -1]).mean()) / run.task.divisor
    first, last = _falling(errors(models).mean((0, 1))[:b], zero)
    falling = slice(first - 1, last)
    cosines = {name: _cosines(models, steps, outputs) for name, steps in iterates.items()}
    methods = {}
    descent = cosines["gradient_descent"]
    for name, cosine in cosines.items():
        method: Result = _over_loops(name, cosine, descent, falling, settings)
        method["nearest"] = band([cosine], settings, _nearest(name), log=False)
        method["cosine"] = band([cosine], settings, _largest, log=False)
        methods[name] = method
    shown = min(loops, 64)  # every method has its iterates up to there
    solvers = {}
    for name, steps in iterates.items():
        solvers[name] = (METHODS[name], errors(steps[None, 1 : shown + 1]))
    by_loops = bands_by_loop(label, group, errors(models[:, :shown]), settings, solvers)
    return by_loops | {"methods": methods}


def solved(
    prompts: Prompts, other_prompts: Prompts, steps: Mapping[str, Collection[int]], b: int
) -> dict[str, Floats]:
    """The predictions of each method's iterates of these numbers, [steps, B, n]; gradient descent
    has the rate that is the best for b steps on the other prompts."""
    xs = prompts.xs.double().numpy()
    # The rate is chosen on prompts that it is not measured on.
    other_xs = other_prompts.xs.double().numpy()
    other_ys = other_prompts.ys.double().numpy()
    equations = solver.normal_equations(xs, prompts.ys.double().numpy())
    others = solver.normal_equations(other_xs, other_ys)
    rate = solver.best_rate(others, other_xs, other_ys, b)
    weights = {
        "gradient_descent": solver.gradient_descent(equations, rate),
        "conjugate_gradients": solver.conjugate_gradients(equations),
        "newton": solver.newton(equations),
    }
    return {name: solver.predictions(xs, weights[name], numbers) for name, numbers in steps.items()}


def _over_loops(
    method: str, cosines: Floats, descent: Floats, loops: slice, settings: EvaluationConfig
) -> Result:
    """The numbers of a method over some loops, from its cosines [seeds, B, loops, steps] and those
    of gradient descent with one rate."""
    nearest = _nearest(method)
    steps = cosines.shape[-1]

    def slope(means: Sequence[Floats]) -> Floats:
        """The slope of the nearest step over the loops, by least squares."""
        numbers = nearest(means)[..., loops]
        # Σ (x - x̄) y / Σ (x - x̄)², over loops x.
        x = np.arange(numbers.shape[-1]) - (numbers.shape[-1] - 1) / 2
        return np.asarray((numbers * x).sum(-1) / max(np.square(x).sum(), 1))

    def acceleration(means: Sequence[Floats]) -> Floats:
        """Growth in the second half of the loops over that in the first."""
        numbers = nearest(means)[..., loops]
        count = numbers.shape[-1]
        middle = (numbers[..., (count - 1) // 2] + numbers[..., count // 2]) / 2
        # Half a step at least, where the nearest iterate hardly moves.
        growth = np.maximum(middle - numbers[..., 0], 0.5)
        return np.asarray((numbers[..., -1] - middle) / growth)

    def nearer(means: Sequence[Floats]) -> Floats:
        """By how much the largest cosine is more than that of gradient descent."""
        largest = means[0][..., :steps].max(-1)
        largest_of_descent = means[0][..., steps:].max(-1)
        return np.asarray((largest - largest_of_descent)[..., loops].mean(-1))

    # In one array, so that they are paired by seed and prompt.
    both = np.concatenate((cosines, descent), axis=-1)
    return {
        "per_loop": estimate([cosines], settings, slope),
        "acceleration": estimate([cosines], settings, acceleration),
        "nearer": estimate([both], settings, nearer),
    }


def _largest(means: Sequence[Floats]) -> Floats:
    """The largest cosine, of cosines [..., loops, steps]."""
    return np.asarray(means[0].max(-1))


def _nearest(method: str) -> Statistic:
    """The statistic of cosines [..., loops, steps] that is the number of the nearest iterate."""
    numbers = np.array(_STEPS[method], np.float64)
    return lambda means: numbers[means[0].argmax(-1)]


def _falling(errors: Floats, zero: float) -> tuple[int, int]:
    """The first and the last loop in which the error falls, from those of loops 1 … b; at least
    three, where there are as many."""
    b = len(errors)
    # It begins to fall where it is below half that of predicting zero (argmax: the first, or 0)
    # and ends within a fourth of the least.
    first = int(np.argmax(errors < zero / 2)) + 1
    last = int(np.argmax(errors <= 1.25 * errors.min())) + 1
    last = min(max(last, first + 2), b)
    return max(min(first, last - 2), 1), last


def _cosines(models: Floats, iterates: Floats, outputs: Floats) -> Floats:
    """Cosines [seeds, B, loops, steps] of the errors of models [seeds, loops, B, n] with those of
    iterates [steps, B, n]; an iterate that has diverged beyond all numbers is opposite to
    everything."""
    # Without examples all predict alike: the errors of the first query tell nothing.
    units = iterates[:, :, 1:] - outputs[:, 1:]
    with np.errstate(over="ignore", invalid="ignore"):
        units /= np.linalg.norm(units, axis=2, keepdims=True)
    by_seed = []
    for model in models:
        errors = model[:, :, 1:] - outputs[:, 1:]
        lengths = np.linalg.norm(errors, axis=2, keepdims=True)
        errors /= np.where(lengths > 0, lengths, 1)
        with np.errstate(invalid="ignore"):
            # [B, loops, n] @ [B, n, steps]
            by_seed.append(errors.transpose(1, 0, 2) @ units.transpose(1, 2, 0))
    return np.asarray(np.nan_to_num(np.stack(by_seed), nan=-1.0), np.float64)


def beside_most_loops(evidence: Evidence, method: str, quantity: str) -> Estimate:
    """A quantity of a method's iterates beside the looped model with the most loops in training."""
    return of_group(evidence, "iterates", "methods", method, quantity, most="b", family="looped")
