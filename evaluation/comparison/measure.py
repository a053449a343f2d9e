"""Several runs of one task side by side, on the same prompts, with paired intervals.

result = compare([load_run(a), load_run(b)], EvaluationConfig(), Path("runs"))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reloop.conf.checksum import key_of
from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import EvaluationConfig
from reloop.training.assemble import trained_loops
from reloop.training.run_folder.files import write_arrays, write_record
from reloop.training.run_folder.run import Run, RunFolder

from ..cache import Arrays
from ..errors import error_name
from ..evaluate_run import resolved
from ..measure import Measure, baseline_names, evaluation_sources
from ..remarks import remarks, shared
from ..summary import Intervals, near_least
from .pictures import draw_comparison, run_labels


def compare(
    runs: Sequence[Run], settings: EvaluationConfig, folder: Path, device: str = "auto"
) -> dict[str, Any]:
    """Measure every run on the same prompts and set the others against the first.

    Each is read at `evaluation.loops`, its own b by default. Written into `folder`/compare-<hash>:
    comparison.json, comparison.npz (errors prompt by prompt) and figures/. Raises ConfigError for
    fewer than two runs, a run named twice, or runs of different tasks.
    """
    _check(runs)
    arrays: dict[str, Arrays] = {}
    content = []
    for run in runs:
        with RunFolder(run.path).lock("evaluation"):
            measure = Measure(run, resolved(run, settings), device)
            arrays[_name(run)] = measure.model()
            sources = evaluation_sources(run.task, measure.settings)
            content.append([_name(run), measure.weights, asdict(measure.settings), sources])
            if run is runs[0]:
                solved = {
                    name: measure.baseline(name) for name in baseline_names(run.task, settings)
                }
    place = folder / f"compare-{key_of([content, list(solved)], 8)}"
    result = _result(runs, settings, arrays)
    intervals = Intervals(settings)
    result["labels"] = {name: label for name, (label, _) in solved.items()}
    result["baselines"] = {name: intervals(errors) for name, (_, errors) in solved.items()}
    labels = run_labels(result)
    result["remarks"] = shared({labels[n]: each["remarks"] for n, each in result["runs"].items()})
    place.mkdir(parents=True, exist_ok=True)
    flat = {f"{run}/{part}": v for run, parts in arrays.items() for part, v in parts.items()}
    write_arrays(place / "comparison.npz", flat)
    draw_comparison(result, place / "figures")
    write_record(place / "comparison.json", "comparison", result)
    return result | {"path": str(place)}


def _check(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise ConfigError("runs", f"must name at least two run folders, got {len(runs)}")
    places = [run.path.resolve() for run in runs]
    names = [_name(run) for run in runs]
    for place, name in zip(places, names, strict=True):
        if places.count(place) > 1:
            raise ConfigError("runs", f"names {place} more than once")
        if names.count(name) > 1:
            raise ConfigError("runs", f"holds two folders called {name}: rename one of them")
    first, *others = runs
    for other in others:
        for key, ours, theirs in (
            ("task", first.config.task.name, other.config.task.name),
            ("task.points", first.config.task.points, other.config.task.points),
            *_settings(first, other),
        ):
            if ours != theirs:
                raise ConfigError(
                    "runs",
                    f"cannot be compared: {key} is {ours} in {names[0]} and {theirs} in "
                    f"{_name(other)}",
                )


def _name(run: Run) -> str:
    return run.path.resolve().name


def _settings(first: Run, other: Run) -> list[tuple[str, Any, Any]]:
    """The function classes' settings but for how many prompts of it there were to train on."""
    ours, theirs = asdict(first.task), asdict(other.task)
    keys = [key for key in ours | theirs if key != "distinct_prompts"]
    return [(f"task.{key}", ours.get(key), theirs.get(key)) for key in keys]


def _result(
    runs: Sequence[Run], settings: EvaluationConfig, arrays: dict[str, Arrays]
) -> dict[str, Any]:
    intervals, first = Intervals(settings), runs[0]
    entries = {}
    for run in runs:
        ours, base = arrays[_name(run)], arrays[_name(first)]
        chosen = resolved(run, settings)
        difference = ours["model"] - base["model"]
        entries[_name(run)] = {
            "family": run.config.model.family,
            "seed": run.config.seed,
            "b": trained_loops(run.config),
            "step": run.step,
            "remarks": remarks(run),
            "loops": chosen.loops,
            "by_examples": intervals(ours["model"]),
            "by_loop": intervals(ours["by_loop"]),
            "near_least": near_least(ours["by_loop"], chosen),
            "last": intervals(ours["model"][:, -1:]),
            "mean_over_k": intervals(ours["model"].mean(1, keepdims=True)),
            "minus_first": {
                "by_examples": intervals(difference),
                "last": intervals(difference[:, -1:]),
                "mean_over_k": intervals(difference.mean(1, keepdims=True)),
            },
        }
    task = first.config.task
    return {
        "task": task.name,
        "dims": task.dims,
        "error": error_name(first.task),
        "divisor": first.task.divisor,
        "prompts": settings.prompts,
        "seed": settings.seed,
        "k": list(range(task.points)),
        "runs": entries,
    }
