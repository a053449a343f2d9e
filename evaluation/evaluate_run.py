"""Measure a run and keep the result in its folder: evaluation.json, evaluation.npz, figures/."""

from __future__ import annotations

import io
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from conf.schema import EvaluationConfig
from training.assemble import trained_loops
from training.files import read_json, write_bytes, write_json
from training.run import Run, RunFolder

from .cache import Arrays
from .measure import Measure, baseline_names, reference_line, shift_names, weights_digest
from .pictures import draw_evaluation
from .summary import shift_summary, summary

FORMAT = 2  # of evaluation.json; an older one is measured anew


def evaluate(run: Run, settings: EvaluationConfig, device: str = "auto") -> dict[str, Any]:
    """Errors of a run's model and of the solvers beside it on the evaluation prompts, and on the
    shifted inputs that are asked for.

    The result, evaluation.json, is read from the run folder where it stands there for the same
    weights and settings; otherwise it is computed, written with per-prompt errors and drawn. What
    was computed before an interruption is not computed again.
    """
    folder = RunFolder(run.path)
    settings = resolved(run, settings)
    asked = {
        "format": FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": _plain(settings),
    }
    kept = read_json(run.path / "evaluation.json")
    if isinstance(kept, dict) and {key: kept.get(key) for key in asked} == asked and _whole(run):
        return kept
    with folder.lock():
        measure = Measure(run, settings, device)
        arrays = measure.model()
        labels = {}
        for name in baseline_names(run.task, settings):
            labels[name], arrays[name] = measure.baseline(name)
        result: dict[str, Any] = asked | summary(run, settings, arrays, labels)
        for name in shift_names(settings):
            result["shifts"][name], measured = _shifted(measure, name)
            arrays |= {f"{name}/{part}": values for part, values in measured.items()}
        # While the rest is written there is no result: what is found beside one belongs to it.
        (run.path / "evaluation.json").unlink(missing_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_bytes(run.path / "evaluation.npz", buffer.getvalue())
        draw_evaluation(result, run.path / "figures")
        write_json(run.path / "evaluation.json", result)
    return result


def resolved(run: Run, settings: EvaluationConfig) -> EvaluationConfig:
    """The settings with their defaults that depend on the run: b loops, the latest to halt at too,
    and 3 b to look beyond, at least as far as errors by examples are read. A standard model has its
    layers and no more, and one with lanes no more loops than it has weights of them."""
    b, most = trained_loops(run.config), run.model.loop.most_loops
    if run.config.model.family == "standard":
        return replace(settings, loops=b, max_loops=b, halt_by=b)
    loops = settings.loops or b
    if most is not None and loops != "auto":
        loops = min(int(loops), most)
    latest = settings.halt_by or b
    least = max(b, latest if loops == "auto" else int(loops))
    furthest = max(settings.max_loops or 3 * b, least)
    furthest = min(furthest, most or furthest)
    return replace(settings, loops=loops, max_loops=furthest, halt_by=min(latest, furthest))


def _shifted(measure: Measure, name: str) -> tuple[dict[str, Any], Arrays]:
    shifted = measure.shifted(name)
    arrays = measure.model(shifted, name)
    solver = reference_line(measure.task)
    label, arrays[solver] = measure.baseline(solver, shifted)
    return shift_summary(measure, name, shifted, arrays, {solver: label}), arrays


def _plain(settings: EvaluationConfig) -> dict[str, Any]:
    """The settings as JSON gives them back."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(settings).items()
    }


def _whole(run: Run) -> bool:
    """Whether the errors and a picture stand beside the result, which is written last."""
    figure = run.path / "figures" / "error_by_examples.png"
    return (run.path / "evaluation.npz").exists() and figure.exists()
