"""How difficult a function class is: the loops b and the window T that its training needs.

Measured are the least b that is as good as the best of all, for each T (arXiv 2311.12424, Section
6), and the memory of a step.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from looplab.conf.in_words import FUNCTIONS
from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.evaluate_run import measured
from looplab.evaluation.results import SQUARED_ERROR, by_loop_name
from looplab.evaluation.statistics import Estimate, finite
from looplab.show.panel import Curve, Panel
from looplab.tasks import Task
from looplab.training.assemble import build_curriculum
from looplab.training.run_folder.run import Run
from looplab.training.step import Trainer

from .evidence import Evidence, of_runs
from .measuring import band, estimate, first_at_most

_HARDER = {"linear": "dims", "sparse_linear": "sparsity", "decision_tree": "depth"}
_AXES = {"dims": "dimensions", "sparsity": "inputs that count", "depth": "depth"}
_ALLOWED = 1.25  # times the least error of a task: what counts as as good


def measure(runs: Sequence[Run], settings: EvaluationConfig) -> dict[str, Any]:
    """Compare runs of one class by its difficulty: the dimensions of linear functions, the
    sparsity of sparse ones, the depth of trees.

    Each of the `classes`, by name, has its `values` of difficulty, `least`: by T the least b of
    each value whose last query's error is at most a fourth above the least of all b and T there
    (None: none is; between two b of the grid by lines), `growth`: at the largest T, the least b of
    the hardest over that of the easiest; `memory`, by T and b, the bytes that a step of the hardest
    keeps; and as `bands`, by b the `errors` of each value at the largest T, by value the `least` b
    of each T, and by T the errors of the `hardest` for each b.
    """
    classes = dict[str, dict[str, Any]]()
    for name in dict.fromkeys(run.task.name for run in runs):
        cells: dict[tuple[int, int, int], list[Run]] = {}  # by difficulty, T and b
        for run in sorted(runs, key=lambda run: run.config.seed):
            if run.task.name == name:
                place = difficulty(run.task), run.config.loops.T, run.config.loops.b
                cells.setdefault(place, []).append(run)
        values, windows, loops = (sorted(set(part)) for part in zip(*cells, strict=True))
        errors = {  # of the last query, [seeds, prompts]
            place: np.stack([measured(run, settings)[1]["model_at_b"] for run in of])[..., -1]
            for place, of in cells.items()
        }
        arrays = []  # of each value, [seeds, prompts, T, b]
        for value in values:
            of_value = np.array([[errors[value, T, b] for b in loops] for T in windows])
            arrays.append(of_value.transpose(2, 3, 0, 1).astype(np.float64))
        classes[name] = {
            "values": values,
            "loops": loops,
            "windows": windows,
            "least": [[*map(finite, _least(each.mean((0, 1)), loops))] for each in arrays],
            # [T, b], of the hardest.
            "memory": [[kept_bytes(cells[values[-1], T, b][0]) for b in loops] for T in windows],
            "growth": estimate(
                [arrays[-1], arrays[0]], settings, partial(_over, loops=loops), log=True
            ),
            "bands": _bands(arrays, loops, settings),
        }
    return {"classes": classes}


def kept_bytes(run: Run) -> int:
    """The bytes that a step at the end of training keeps for its backward pass, the weights
    apart: what grows with T. On a GPU it is nearly all of the allocator's peak."""
    model, sizes = deepcopy(run.model).requires_grad_(True), dict[int, int]()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    curriculum = build_curriculum(run.config, run.task)
    trainer = Trainer(run.config, run.task, curriculum, model, capture=False)

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    trainer.prepare(run.step - 1)
    stage = curriculum(run.step - 1)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        objective, _ = trainer.losses(stage, trainer.batch(stage, 0))
    del objective  # until here nothing that it keeps is freed
    return sum(sizes.values())


def difficulty(task: Task) -> int:
    """What makes a task of its class harder."""
    return int(getattr(task, _HARDER[task.name]))


def _least(means: Floats, loops: Sequence[int]) -> Floats:
    """For errors [..., T, b] the least b that is as good as the best of all, [..., T]."""
    level = _ALLOWED * means.min((-2, -1))
    places = first_at_most(means, np.broadcast_to(level[..., None], means.shape[:-1]))
    return np.interp(places, range(len(loops)), loops)


def _over(means: Sequence[Floats], loops: Sequence[int]) -> Floats:
    """The least b of the first group of errors over that of the second, at the largest T."""
    hard, easy = (_least(each, loops)[..., -1] for each in means)
    return np.asarray(hard / easy)


def _bands(
    arrays: Sequence[Floats], loops: Sequence[int], settings: EvaluationConfig
) -> dict[str, list[Interval]]:
    """What is drawn of the errors of each value of difficulty, [seeds, prompts, T, b]."""

    def least_b(means: Sequence[Floats]) -> Floats:
        return _least(means[0], loops)

    least = np.stack(
        [band([array], settings, least_b, log=False) for array in arrays]
    )  # [values, 3, T]
    hardest = np.stack(band([arrays[-1]], settings))  # [3, T, b]
    return {
        "errors": [band([array[..., -1, :]], settings) for array in arrays],
        "least": [Interval(*window) for window in least.transpose(2, 1, 0)],
        "hardest": [Interval(*number) for number in hardest.transpose(2, 0, 1)],
    }


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Of each class errors by b, the least b by difficulty, and errors by the memory of a step."""
    return [panel for name, each in found["classes"].items() for panel in _panels(name, each)]


def _panels(name: str, found: Mapping[str, Any]) -> list[Panel]:
    """Errors by b at the largest T; the least b by difficulty for each T; and the errors of the
    hardest by the memory of a step, for each b."""
    what, file, title = _HARDER[name], name.replace("_", "-"), FUNCTIONS[name]
    values, windows, loops = found["values"], found["windows"], found["loops"]
    bands = found["bands"]
    by_b = [
        Curve.of(f"{what} = {value}", "loops", errors, number=2.0**place)
        for place, (value, errors) in enumerate(zip(values, bands["errors"], strict=True), start=1)
    ]
    least = [
        Curve.of(f"T = {T}", "loops", least_b, number=T)
        for T, least_b in zip(windows, bands["least"], strict=True)
        if any(least_b["mean"])  # else training never comes so far
    ]
    memory = np.array(found["memory"]) / 2**20  # [T, b]
    by_memory = [
        Curve.of(f"b = {b}", "loops", errors, number=b, x=own.tolist())
        for b, errors, own in zip(loops, bands["hardest"], memory.T, strict=True)
    ]
    error = by_loop_name(SQUARED_ERROR)
    axes = ("loops b in training", error)
    picture = f"difficulty-{file}"
    return [
        Panel(
            f"errors-{file}", f"{title}, T = {windows[-1]}", *axes, loops, by_b, log="xy",
            picture=picture,
        ),
        Panel(
            f"least-{file}", f"{title}: loops that training needs", _AXES[what], "least b", values,
            least, limits=(0, None), picture=picture,
        ),
        Panel(
            f"memory-{file}", f"{title}, {what} = {values[-1]}, T = {windows[0]} to {windows[-1]}",
            "MiB that a step keeps for its backward pass", error, memory[:, -1].tolist(), by_memory,
            log="y", picture=picture,
        ),
    ]  # fmt: skip


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
        factors.append(_per_doubling(wide_enough.T, windows).min())
    return _counted(min(factors))


def memory_by_loops(evidence: Evidence) -> Estimate:
    """The factor by which the bytes that a step keeps grow with each doubling of b from T on, the
    greatest over classes and T."""
    factors = []
    for name, found in evidence.result("difficulty", "classes").items():
        evidence.where(name=name)
        loops = np.array(found["loops"])
        for window, memory in zip(found["windows"], np.array(found["memory"]), strict=True):
            enough = loops >= window
            factors.append(_per_doubling(memory[enough], loops[enough]).max())
    return _counted(max(factors))


def _per_doubling(values: Floats, numbers: Floats) -> Floats:
    """The factors between neighbours of values [..., numbers] for each doubling of the numbers."""
    return np.asarray(2 ** (np.diff(np.log2(values)) / np.diff(np.log2(numbers))))


def _counted(value: float) -> Estimate:
    return Estimate(float(value), float(value), float(value), 1, note="counted, without a spread")
