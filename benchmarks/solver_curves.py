"""The baselines' errors on fresh prompts beside stored curves of Yang et al.'s solvers.

The stored curves are means over one set of prompts. The error of that set is the same in the
comparison with every seed: the comparisons are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
import torch

from reloop.conf.mistakes import ConfigError
from reloop.evaluation.baselines.lasso import lasso
from reloop.evaluation.baselines.linear import averaging, least_squares
from reloop.evaluation.baselines.neighbours import nearest_neighbours
from reloop.evaluation.bootstrap import Floats
from reloop.tasks import Task, make_task
from reloop.training.run_folder.files import read_json

Solver = Callable[[Floats, Floats, Floats], Floats]
_DIMS = 20
_SHARED: dict[str, tuple[str, Solver]] = {
    "least_squares": ("Least Squares", least_squares),
    "averaging": ("Averaging", averaging),
    "nearest_neighbours": ("3-Nearest Neighbors", nearest_neighbours),
}
# By our names of tasks: the file's name; and by our names of solvers: the file's and the function.
TASKS = {
    "linear": ("linear_regression", _SHARED),
    "sparse_linear": (
        "sparse_linear_regression",
        _SHARED | {"lasso": ("Lasso (alpha=0.01)", lasso)},
    ),
}
NOTE = "the stored curves are one set of prompts, whose own deviation all seeds share"


class Curve(NamedTuple):
    """A solver's squared errors over prompts: mean, median and standard error by k."""

    mean: Floats
    median: Floats
    error: Floats


Curves = dict[str, dict[str, Curve]]  # by task and solver


class Medians(TypedDict):
    """The medians of two curves at some k."""

    k: list[int]
    own: list[float]
    stored: list[float]


class Agreement(TypedDict):
    """How far a curve is from a stored one; see `agreement`."""

    z: list[float]
    outside_2: int
    largest: float
    largest_beyond: NotRequired[float]
    medians_near_d: NotRequired[Medians]
    rounding_over_stored: NotRequired[float]


class Summary(TypedDict):
    """A solver's agreements over seeds."""

    seeds: int
    share_within_2: float
    seeds_with_all_within_2: int
    seeds_with_at_most_one_outside_2: int
    seeds_with_all_within_3: int
    largest: float
    seeds_at_or_below_stored_rounding: NotRequired[int]


class Comparison(TypedDict):
    """All of them, by task and solver."""

    note: str
    prompts: int
    summary: dict[str, dict[str, Summary]]
    by_seed: dict[str, dict[str, list[Agreement]]]


def read_curves(path: Path) -> Curves:
    """The stored curves of our solvers; ConfigError for a file that lacks one of them."""
    content = read_json(path)
    try:
        return {
            task: {
                name: _stored_curve(content["tasks"][stored_name]["solvers"][label])
                for name, (label, _) in solvers.items()
            }
            for task, (stored_name, solvers) in TASKS.items()
        }
    except (KeyError, TypeError):
        problem = f"must name a file: {path} is no file of stored curves of all our solvers"
        raise ConfigError("curves", problem) from None


def compare(stored_curves: Curves, prompts: int, seeds: int) -> Iterator[Comparison]:
    """Compare prompts of seed 0, 1, … with the stored curves; yields all results after each."""
    print(f"Curves on {prompts} prompts a seed; {NOTE}.")
    by_seed: dict[str, dict[str, list[Agreement]]] = {
        task: {name: [] for name in curves} for task, curves in stored_curves.items()
    }
    for seed in range(seeds):
        for task, curves in stored_curves.items():
            for name, curve in _our_curves(task, next(iter(curves.values())), prompts, seed):
                by_seed[task][name].append(agreement(curves[name], curve, name))
        summary = {
            task: {name: _summary(entries) for name, entries in solvers.items()}
            for task, solvers in by_seed.items()
        }
        print(f"seed {seed}", *_rows(by_seed, seed), sep="\n", flush=True)
        yield {"note": NOTE, "prompts": prompts, "summary": summary, "by_seed": by_seed}
    print(f"over {seeds} seeds", *_totals(summary), sep="\n", flush=True)


def agreement(stored_curve: Curve, curve: Curve, name: str) -> Agreement:
    """z = (curve − stored_curve) / standard error of the difference for k = 0 … d − 2, the number
    of |z| that are not below 2, and the largest.

    For larger k, the largest |z| again; but for least squares, whose mean near k = d depends on a
    few prompts, the medians at d − 1, d and d + 1, and from d + 2 on the largest ratio of its mean
    to the stored one, which is float32's rounding.
    """
    with np.errstate(invalid="ignore"):  # equal curves without spread: 0 / 0 counts as 0
        z = np.nan_to_num(
            (curve.mean - stored_curve.mean) / np.hypot(curve.error, stored_curve.error)
        )
    head, tail = np.split(z, [_DIMS - 1])
    result: Agreement = {
        "z": [round(value, 3) for value in head.tolist()],
        "outside_2": int((np.abs(head) >= 2).sum()),
        "largest": float(np.abs(head).max()),
    }
    if name != "least_squares":
        result["largest_beyond"] = float(np.abs(tail).max())
        return result
    near_d, beyond_d = slice(_DIMS - 1, _DIMS + 2), slice(_DIMS + 2, None)
    result["medians_near_d"] = {
        "k": list(range(_DIMS - 1, _DIMS + 2)),
        "own": curve.median[near_d].tolist(),
        "stored": stored_curve.median[near_d].tolist(),
    }
    ratios = curve.mean[beyond_d] / stored_curve.mean[beyond_d]
    result["rounding_over_stored"] = float(ratios.max())
    return result


def _our_curves(
    task: str, stored_curve: Curve, prompts: int, seed: int
) -> Iterator[tuple[str, Curve]]:
    batch = _task(task).sample(torch.Generator().manual_seed(seed), prompts, len(stored_curve.mean))
    xs, ys = batch.xs.double().numpy(), batch.ys.double().numpy()
    for name, (_, solve) in TASKS[task][1].items():
        errors = np.square(solve(xs, ys, xs) - ys)
        spread = errors.std(0, ddof=1) / np.sqrt(prompts)
        yield name, Curve(errors.mean(0), np.median(errors, axis=0), spread)


def _task(name: str) -> Task:
    return make_task(name, _DIMS, settings={"sparsity": 3} if name == "sparse_linear" else None)


def _stored_curve(entry: Mapping[str, list[float]]) -> Curve:
    error = np.array(entry["std"]) / np.sqrt(entry["n_prompts"])
    return Curve(np.array(entry["mse"]), np.array(entry["median"]), error)


def _summary(entries: list[Agreement]) -> Summary:
    outside = np.array([entry["outside_2"] for entry in entries])
    largest = np.array([entry["largest"] for entry in entries])
    summary: Summary = {
        "seeds": len(entries),
        "share_within_2": 1 - float(outside.mean()) / len(entries[0]["z"]),
        "seeds_with_all_within_2": int((outside == 0).sum()),
        "seeds_with_at_most_one_outside_2": int((outside <= 1).sum()),
        "seeds_with_all_within_3": int((largest < 3).sum()),
        "largest": float(largest.max()),
    }
    if "rounding_over_stored" in entries[0]:
        ratios = [entry["rounding_over_stored"] for entry in entries]
        summary["seeds_at_or_below_stored_rounding"] = sum(ratio <= 1 for ratio in ratios)
    return summary


def _rows(by_seed: Mapping[str, Mapping[str, list[Agreement]]], seed: int) -> Iterator[str]:
    for task, solvers in by_seed.items():
        for name, entries in solvers.items():
            entry = entries[seed]
            row = (
                f"  {task:14}{name:20}k <= {_DIMS - 2}: {entry['outside_2']} of {len(entry['z'])} "
            )
            row += f"outside 2, largest |z| {entry['largest']:4.2f}; beyond: "
            if "medians_near_d" not in entry:
                yield row + f"largest {entry['largest_beyond']:.2f}"
                continue
            medians = entry["medians_near_d"]
            triples = zip(medians["k"], medians["own"], medians["stored"], strict=True)
            row += "medians own/stored "
            row += ", ".join(f"{ours:.2g}/{other:.2g} at {k}" for k, ours, other in triples)
            yield row + f", then mean at most {entry['rounding_over_stored']:.2g} of stored"


def _totals(summary: Mapping[str, Mapping[str, Summary]]) -> Iterator[str]:
    for task, solvers in summary.items():
        for name, total in solvers.items():
            row = f"  {task:14}{name:20}{total['share_within_2']:5.1%} within 2, largest |z| "
            row += f"{total['largest']:.2f}; seeds with none outside 2: "
            row += f"{total['seeds_with_all_within_2']}, at most one: "
            row += f"{total['seeds_with_at_most_one_outside_2']}, none outside 3: "
            yield row + f"{total['seeds_with_all_within_3']}"
