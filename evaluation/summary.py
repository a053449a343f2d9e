"""The content of evaluation.json from errors prompt by prompt: means with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.schema import EvaluationConfig
from looplab.tasks import SHIFTS, Shifted
from looplab.training.assemble import trained_loops

from .baselines import optimal
from .bootstrap import Band, bootstrap, resampled_means
from .errors import TOLERANCES, error_name, halted_at
from .kept import Arrays
from .measure import Measure
from .published import published, published_loops
from .style import kind_of

_NEAR = 1.05  # times the least error by loop: an error up to this is near it


def intervals_by(settings: EvaluationConfig) -> Callable[[NDArray[Any]], Band]:
    """A function to means with intervals, by an evaluation's settings."""
    return lambda values: bootstrap(values, settings.resamples, settings.seed).to_json()


def summary(measure: Measure, arrays: Arrays, labels: Mapping[str, str]) -> dict[str, Any]:
    """The result of an evaluation without its shifted inputs, as plain values."""
    run, settings, config = measure.run, measure.settings, measure.run.config
    intervals = intervals_by(settings)
    loop = settings.loops if isinstance(settings.loops, int) else 0
    result: dict[str, Any] = {
        "task": config.task.name,
        "family": config.model.family,
        "style": kind_of(config.model),
        "dims": config.task.dims,
        "divisor": run.task.divisor,
        "error": error_name(run.task),
        "loops": settings.loops,
        "b": trained_loops(config),
        "prompts": settings.prompts,
        "seed": settings.seed,
        "labels": dict(labels),
        "by_examples": _by_examples(measure, config.task.points, arrays, labels),
        "by_loop": {
            "loop": list(range(1, arrays["by_loop"].shape[1] + 1)),
            "model": intervals(arrays["by_loop"]),
            "state_change": intervals(arrays["state_change"]),
            "prediction_change": intervals(arrays["prediction_change"]),
            "near_least": near_least(arrays["by_loop"], settings),
        },
        "halting": _halting(arrays, settings, settings.halt_by or trained_loops(config)),
        "shifts": {},
        "published": [
            entry
            for entry in published(config, loop)
            # A solver with another choice of its setting is not comparable.
            if entry["name"] not in labels or labels[entry["name"]].startswith(entry["label"])
        ],
        "published_loops": published_loops(config),
    }
    best = optimal(run.task)
    if best in arrays:
        result["above_optimal"] = {
            "over": best,
            "model": intervals(arrays["model"] - arrays[best]),
            "model_at_b": intervals(arrays["model_at_b"] - arrays[best]),
        }
    return result


def shift_summary(
    measure: Measure, name: str, shifted: Shifted, arrays: Arrays, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The part of the result for one shifted input distribution."""
    return {
        "label": SHIFTS[name].label,
        "zero": shifted.zero,
        "labels": dict(labels),
        **_by_examples(measure, shifted.queries.xs.shape[1], arrays, labels),
        "by_loop": intervals_by(measure.settings)(arrays["by_loop"]),
    }


def _by_examples(
    measure: Measure, points: int, arrays: Arrays, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The errors by number of examples, of the model and the solvers."""
    names = ["model", "model_at_b", *labels]
    names += ["loops_used"] if "loops_used" in arrays else []
    intervals = intervals_by(measure.settings)
    return {"k": list(range(points)), **{name: intervals(arrays[name]) for name in names}}


def near_least(by_loop: NDArray[Any], settings: EvaluationConfig) -> dict[str, Any]:
    """The first loop at which the mean error is within 5 % of its least over all loops, with a 90 %
    interval over resamples of the prompts."""

    def first(means: NDArray[Any]) -> NDArray[Any]:
        return (means <= _NEAR * means.min(-1, keepdims=True)).argmax(-1) + 1

    loops = first(resampled_means(by_loop, settings.resamples, settings.seed))
    low, high = np.percentile(loops, (5, 95), method="nearest")
    loop = int(first(by_loop.mean(0, dtype=np.float64)))
    return {"within": _NEAR - 1, "loop": loop, "low": float(low), "high": float(high)}


def _halting(arrays: Arrays, settings: EvaluationConfig, latest: int) -> dict[str, Any]:
    """The last query's error against the mean number of loops used, for halting on either change at
    a range of tolerances, and after `latest` loops in any case."""
    result: dict[str, Any] = {"tolerance": list(TOLERANCES)}
    for on in ("state", "prediction"):
        changes = arrays[f"{on}_change"]
        pairs = [halted_at(arrays["by_loop"], changes, t, latest) for t in TOLERANCES]
        errors, loops = (np.stack(values, axis=1) for values in zip(*pairs, strict=True))
        intervals = intervals_by(settings)
        result[on] = {"loops": intervals(loops), "error": intervals(errors)}
    return result
