"""Measure a run and keep the result in its folder: evaluation.json, evaluation.npz, figures/."""

from __future__ import annotations

import io
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.schema import EvaluationConfig
from training.assemble import trained_loops
from training.device import place
from training.files import read_json, write_bytes, write_json
from training.run import Run, RunFolder

from .baselines import BASELINES
from .bootstrap import bootstrap
from .errors import error_name, evaluation_prompts, model_errors
from .figures import draw_figures


def evaluate(run: Run, settings: EvaluationConfig, device: str = "auto") -> dict[str, Any]:
    """Errors of a run's model and of its task's baselines on the evaluation prompts.

    The result, evaluation.json, is read from the run folder where it stands there for the
    same weights and settings; otherwise it is computed, written with per-prompt errors and drawn.
    """
    folder = RunFolder(run.path)
    asked = {"step": run.step, "settings": asdict(_resolved(run, settings))}
    kept = read_json(run.path / "evaluation.json")
    if kept and {key: kept.get(key) for key in asked} == asked and _drawn(run):
        return dict(kept)
    with folder.lock():
        arrays, seconds = _measure(run, _resolved(run, settings), device)
        result = asked | _summary(run, _resolved(run, settings), arrays) | {"seconds": seconds}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_bytes(run.path / "evaluation.npz", buffer.getvalue())
        draw_figures(result, run.path / "figures")
        write_json(run.path / "evaluation.json", result)
    return result


def _resolved(run: Run, settings: EvaluationConfig) -> EvaluationConfig:
    """The settings with their defaults that depend on the run: b loops, and 3 b to look beyond.
    A standard model has its layers and no more."""
    b = trained_loops(run.config)
    if run.config.model.family == "standard":
        return replace(settings, loops=b, max_loops=b)
    loops = settings.loops or b
    return replace(settings, loops=loops, max_loops=settings.max_loops or max(3 * b, loops))


def _drawn(run: Run) -> bool:
    return (run.path / "evaluation.npz").exists() and any((run.path / "figures").glob("*.png"))


def _measure(
    run: Run, settings: EvaluationConfig, device: str
) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
    """Per-prompt errors over the divisor by name, and the seconds each took."""
    assert settings.loops is not None
    assert settings.max_loops is not None
    seconds, start = {}, time.monotonic()
    task, b = run.task, trained_loops(run.config)
    points = run.config.task.points
    prompts = evaluation_prompts(task, settings.prompts, points, settings.seed)
    errors = model_errors(
        place(device, "fp32", "eager").prepare(run.model),
        task,
        prompts,
        {b, settings.loops},
        max(b, settings.loops, settings.max_loops),
        settings.batch_size,
    )
    arrays: dict[str, NDArray[Any]] = {
        "model": errors.by_examples[settings.loops],
        "model_at_b": errors.by_examples[b],
        "by_loop": errors.by_loop[:, : settings.max_loops],
    }
    seconds["model"] = round(time.monotonic() - start, 2)
    xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
    for name in task.baselines:
        start = time.monotonic()
        arrays[name] = np.square(BASELINES[name](xs, ys) - ys) / task.divisor
        seconds[name] = round(time.monotonic() - start, 2)
    return arrays, seconds


def _summary(
    run: Run, settings: EvaluationConfig, arrays: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    intervals = {
        name: bootstrap(errors, settings.resamples, settings.seed).to_json()
        for name, errors in arrays.items()
    }
    by_loop = intervals.pop("by_loop")
    points, loops = run.config.task.points, len(by_loop["mean"])
    return {
        "task": run.config.task.name,
        "family": run.config.model.family,
        "dims": run.config.task.dims,
        "divisor": run.task.divisor,
        "error": error_name(run.task),
        "loops": settings.loops,
        "b": trained_loops(run.config),
        "prompts": settings.prompts,
        "seed": settings.seed,
        "by_examples": {"k": list(range(points)), **intervals},
        "by_loop": {"loop": list(range(1, loops + 1)), "model": by_loop},
    }
