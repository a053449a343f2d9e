"""How difficult a function class is: the loops b and the window T that its training needs.

Measured are the least b that is as good as the best of all, for each T (arXiv 2311.12424, Section
6), and the memory of a step.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from looplab.conf.in_words import FUNCTIONS
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.evaluate_run import evaluated
from looplab.evaluation.results import SQUARED_ERROR, by_loop_name
from looplab.evaluation.statistics import Estimate, NotMeasured, finite
from looplab.show.panel import Curve, Panel
from looplab.tasks import Task
from looplab.training.assemble import build_curriculum
from looplab.training.run_folder.run import Run
from looplab.training.step import Trainer

from .evidence import Evidence, counted, of_runs
from .question import Result, band, estimate, first_at_most, per_doubling

_HARDER = {"linear": "dims", "sparse_linear": "sparsity", "decision_tree": "depth"}
_AXES = {"dims": "dimensions", "sparsity": "inputs that count", "depth": "depth"}
_ALLOWED = 1.25  # times the least error of a task: what counts as as good


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """Compare runs of one class by its difficulty: the dimensions of linear functions, the
    sparsity of sparse ones, the depth of trees.

    Each of the `classes`, by name, has

    - `values` of difficulty, and the `loops` b and `windows` T of training;
    - `least` [values, T]: the least b at which the last query's error is at most a fourth above the
      least of all b and T. Between two b of the grid it lies on a line; None: no b does it;
    - `growth`: at the largest T, the least b of the hardest over that of the easiest;
    - `memory` [T, b]: the bytes that a step of the hardest keeps;
    - `bands`: of each value the `errors` by b at the largest T, of each T the `least` b by value,
      of each b the errors of the `hardest` by T.
    """
    names = dict.fromkeys(run.task.name for run in runs)
    classes = {}
    for name in names:
        classes[name] = _of_class([run for run in runs if run.task.name == name], settings)
    return {"classes": classes}


class GridPoint(NamedTuple):
    """What the runs of a class that differ in their seed alone have in common."""

    difficulty: int
    window: int
    loops: int


def _of_class(runs: Sequence[Run], settings: EvaluationConfig) -> Result:
    """The numbers and bands of one class; see `measure`."""
    points: dict[GridPoint, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.config.seed):
        point = GridPoint(difficulty(run.task), run.config.loops.T, run.config.loops.b)
        points.setdefault(point, []).append(run)
    values = sorted({point.difficulty for point in points})
    windows = sorted({point.window for point in points})
    loops = sorted({point.loops for point in points})
    errors = {}  # of the last query, [seeds, prompts]
    for point, seeds in points.items():
        by_seed = [evaluated(run, settings)[1]["model_at_b"] for run in seeds]
        errors[point] = np.stack(by_seed)[..., -1]
    arrays = []  # of each value, [seeds, prompts, T, b]
    for value in values:
        # From [T, b, seeds, prompts].
        by_window = [[errors[GridPoint(value, T, b)] for b in loops] for T in windows]
        arrays.append(np.array(by_window).transpose(2, 3, 0, 1).astype(np.float64))
    memory = []  # [T, b], of the hardest
    for T in windows:
        memory.append([kept_bytes(points[GridPoint(values[-1], T, b)][0]) for b in loops])
    least = [_least(array.mean((0, 1)), loops) for array in arrays]
    growth = partial(_over, loops=loops)
    return {
        "values": values,
        "loops": loops,
        "windows": windows,
        "least": [list(map(finite, least_b)) for least_b in least],
        "memory": memory,
        "growth": estimate([arrays[-1], arrays[0]], settings, growth, log=True),
        "bands": _bands(arrays, loops, settings),
    }


def kept_bytes(run: Run) -> int:
    """The bytes that a step at the end of training keeps for its backward pass, the weights
    apart: what grows with T. On a GPU it is nearly all of the allocator's peak."""
    model = deepcopy(run.model).requires_grad_(True)
    sizes: dict[int, int] = {}  # of each tensor's memory, by its address
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    curriculum = build_curriculum(run.config, run.task)
    trainer = Trainer(run.config, run.task, curriculum, model, capture=False)

    def keep(tensor: Tensor) -> Tensor:
        # Views share their memory, which counts once.
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    trainer.prepare(run.step - 1)
    stage = curriculum(run.step - 1)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        # Only the forward pass: what it saves is what a step keeps.
        objective, _ = trainer.losses(stage, trainer.batch(stage, 0))
    del objective  # until here nothing that it keeps is freed
    return sum(sizes.values())


def difficulty(task: Task) -> int:
    """What makes a task of its class harder."""
    return int(getattr(task, _HARDER[task.name]))


def _least(means: Floats, loops: Sequence[int]) -> Floats:
    """For errors [..., T, b] the least b that is as good as the best of all, [..., T]."""
    level = _ALLOWED * means.min((-2, -1))
    # The level, [...], holds for every T.
    indices = first_at_most(means, np.broadcast_to(level[..., None], means.shape[:-1]))
    return np.interp(indices, range(len(loops)), loops)


def _over(means: Sequence[Floats], loops: Sequence[int]) -> Floats:
    """The least b of the first group of errors over that of the second, at the largest T."""
    hard = _least(means[0], loops)[..., -1]
    easy = _least(means[1], loops)[..., -1]
    return np.asarray(hard / easy)


def _bands(
    arrays: Sequence[Floats], loops: Sequence[int], settings: EvaluationConfig
) -> dict[str, list[Interval]]:
    """What is drawn of the errors of each value of difficulty, [seeds, prompts, T, b]."""

    def least_b(means: Sequence[Floats]) -> Floats:
        return _least(means[0], loops)

    least = [band([array], settings, least_b, log=False) for array in arrays]
    by_window = np.stack(least).transpose(2, 1, 0)  # [T, 3, values]
    hardest = np.stack(band([arrays[-1]], settings))  # [3, T, b]
    return {
        "errors": [band([array[..., -1, :]], settings) for array in arrays],
        "least": [Interval(*window) for window in by_window],
        "hardest": [Interval(*number) for number in hardest.transpose(2, 0, 1)],
    }


def panels(result: Result) -> list[Panel]:
    """Of each class errors by b, the least b by difficulty, and errors by the memory of a step."""
    drawn = []
    for name, of_class in result["classes"].items():
        drawn += _panels(name, of_class)
    return drawn


def _panels(name: str, of_class: Result) -> list[Panel]:
    """Errors by b at the largest T; the least b by difficulty for each T; and the errors of the
    hardest by the memory of a step, for each b."""
    setting = _HARDER[name]
    file = name.replace("_", "-")
    title = FUNCTIONS[name]
    values, windows, loops = (of_class[key] for key in ("values", "windows", "loops"))
    bands = of_class["bands"]
    by_b = []
    for index, value in enumerate(values):
        label = f"{setting} = {value}"
        # The number makes harder values darker.
        curve = Curve.of(label, "loops", bands["errors"][index], number=2.0 ** (index + 1))
        by_b.append(curve)
    least = []
    for T, least_b in zip(windows, bands["least"], strict=True):
        if any(least_b["mean"]):  # else training never comes so far
            least.append(Curve.of(f"T = {T}", "loops", least_b, number=T))
    memory = np.array(of_class["memory"]) / 2**20  # [T, b]
    by_memory = []
    for b, errors, mebibytes in zip(loops, bands["hardest"], memory.T, strict=True):
        x = mebibytes.tolist()
        by_memory.append(Curve.of(f"b = {b}", "loops", errors, number=b, x=x))
    error = by_loop_name(SQUARED_ERROR)
    panel = partial(Panel, picture=f"difficulty-{file}")
    title_of_b = f"{title}, T = {windows[-1]}"
    title_of_least = f"{title}: loops that training needs"
    title_of_memory = f"{title}, {setting} = {values[-1]}, T = {windows[0]} to {windows[-1]}"
    of_errors = panel(
        f"errors-{file}", title_of_b, "loops b in training", error, loops, by_b, log="xy"
    )
    of_least = panel(
        f"least-{file}", title_of_least, _AXES[setting], "least b", values, least, limits=(0, None)
    )
    kept = "MiB that a step keeps for its backward pass"
    most = memory[:, -1].tolist()
    of_memory = panel(f"memory-{file}", title_of_memory, kept, error, most, by_memory, log="y")
    return [of_errors, of_least, of_memory]


def growth(evidence: Evidence, task: str) -> Estimate:
    """The least b for a last query's error near the best, hardest over easiest."""
    return of_runs(evidence, "difficulty", "classes", task, "growth", name=task)


def memory_by_window(evidence: Evidence) -> Estimate:
    """The factor by which the bytes that a step keeps grow with each doubling of T, the least over
    classes and b from the largest T on."""
    factors = []
    for name, found in evidence.result("difficulty", "classes").items():
        evidence.where(name=name)
        windows, loops, memory = map(np.array, (found["windows"], found["loops"], found["memory"]))
        wide_enough = memory[:, loops >= windows[-1]]
        factors += per_doubling(wide_enough.T, windows).flatten().tolist()
    return _counted_end(min, factors)


def memory_by_loops(evidence: Evidence) -> Estimate:
    """The factor by which the bytes that a step keeps grow with each doubling of b from T on, the
    greatest over classes and T."""
    factors = []
    for name, found in evidence.result("difficulty", "classes").items():
        evidence.where(name=name)
        loops = np.array(found["loops"])
        for window, memory in zip(found["windows"], np.array(found["memory"]), strict=True):
            enough = loops >= window
            factors += per_doubling(memory[enough], loops[enough]).tolist()
    return _counted_end(max, factors)


def _counted_end(end: Callable[[list[float]], float], factors: list[float]) -> Estimate:
    """The least or the greatest of some factors; NotMeasured without any."""
    if not factors:
        raise NotMeasured("no two numbers of loops, or windows, from T on")
    return counted(end(factors))
