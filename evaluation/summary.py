"""The content of evaluation.json from errors prompt by prompt: means with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reloop.conf.schema import EvaluationConfig
from reloop.tasks import SHIFTS, Shifted
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.run import Run

from .baselines import optimal
from .bootstrap import bootstrap, resampled_means
from .cache import Arrays
from .errors import error_name
from .halting import TOLERANCES, halted_at
from .measure import Measure
from .published import published, published_loops

_BY_LOOP = ("by_loop", "state_change", "prediction_change")
_NEAR = 1.05  # times the least error by loop: an error up to this is near it


class Intervals:
    """Means with intervals, by an evaluation's settings."""

    def __init__(self, settings: EvaluationConfig) -> None:
        self._resamples, self._seed = settings.resamples, settings.seed

    def __call__(self, values: NDArray[Any]) -> dict[str, list[float | None]]:
        return bootstrap(values, self._resamples, self._seed).to_json()


def summary(
    run: Run, settings: EvaluationConfig, arrays: Arrays, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The result of an evaluation without its shifted inputs, as plain values."""
    intervals = Intervals(settings)
    by_examples = {name: values for name, values in arrays.items() if name not in _BY_LOOP}
    loops_used = by_examples.pop("loops_used", None)
    loops = list(range(1, arrays["by_loop"].shape[1] + 1))
    result: dict[str, Any] = {
        "task": run.config.task.name,
        "family": run.config.model.family,
        "dims": run.config.task.dims,
        "divisor": run.task.divisor,
        "error": error_name(run.task),
        "loops": settings.loops,
        "b": trained_loops(run.config),
        "prompts": settings.prompts,
        "seed": settings.seed,
        "labels": dict(labels),
        "by_examples": {
            "k": list(range(run.config.task.points)),
            **{name: intervals(values) for name, values in by_examples.items()},
        },
        "by_loop": {
            "loop": loops,
            "model": intervals(arrays["by_loop"]),
            "state_change": intervals(arrays["state_change"]),
            "prediction_change": intervals(arrays["prediction_change"]),
            "near_least": near_least(arrays["by_loop"], settings),
        },
        "halting": halting(arrays, intervals, settings.halt_by or trained_loops(run.config)),
        "shifts": {},
    }
    if loops_used is not None:
        result["by_examples"]["loops_used"] = intervals(loops_used)
    best = optimal(run.task)
    if best in arrays:
        result["above_optimal"] = {
            "over": best,
            **{name: intervals(arrays[name] - arrays[best]) for name in ("model", "model_at_b")},
        }
    loop = settings.loops if isinstance(settings.loops, int) else 0
    result["published"] = [
        asdict(entry)
        for entry in published(run.config, loop)
        # A solver with another choice of its setting is not comparable.
        if entry.name not in labels or labels[entry.name].startswith(entry.label)
    ]
    result["published_loops"] = published_loops(run.config)
    return result


def shift_summary(
    measure: Measure, name: str, shifted: Shifted, arrays: Arrays, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The part of the result for one shifted input distribution."""
    intervals = Intervals(measure.settings)
    by_examples = {part: values for part, values in arrays.items() if part not in _BY_LOOP}
    return {
        "label": SHIFTS[name].label,
        "k": list(range(shifted.queries.xs.shape[1])),
        "zero": shifted.zero,
        "labels": dict(labels),
        **{part: intervals(values) for part, values in by_examples.items()},
        "by_loop": intervals(arrays["by_loop"]),
    }


def near_least(by_loop: NDArray[Any], settings: EvaluationConfig) -> dict[str, Any]:
    """The first loop at which the mean error is within 5 % of its least over all loops, with a 90 %
    interval over resamples of the prompts."""

    def first(means: NDArray[Any]) -> NDArray[Any]:
        return (means <= _NEAR * means.min(-1, keepdims=True)).argmax(-1) + 1

    loops = first(resampled_means(by_loop, settings.resamples, settings.seed))
    low, high = np.percentile(loops, (5, 95), method="nearest")
    loop = int(first(by_loop.mean(0, dtype=np.float64)))
    return {"within": _NEAR - 1, "loop": loop, "low": float(low), "high": float(high)}


def halting(arrays: Arrays, intervals: Intervals, latest: int) -> dict[str, Any]:
    """The last query's error against the mean number of loops used, for halting on either change at
    a range of tolerances, and after `latest` loops in any case."""
    result: dict[str, Any] = {"tolerance": list(TOLERANCES)}
    for on in ("state", "prediction"):
        pairs = [
            halted_at(arrays["by_loop"], arrays[f"{on}_change"], t, latest) for t in TOLERANCES
        ]
        errors, loops = (np.stack(values, axis=1) for values in zip(*pairs, strict=True))
        result[on] = {"loops": intervals(loops), "error": intervals(errors)}
    return result
