"""Several runs of one task side by side, on the same prompts, with paired intervals.

result = compare([load_run(a), load_run(b)], EvaluationConfig(), Path("runs"))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig, FigureSettings
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.files import write_arrays
from looplab.training.run_folder.run import Run, RunFolder

from .bootstrap import Floats
from .drawing import save_panels
from .errors import error_name
from .evaluate_run import resolved
from .figures import comparison_panels, model_label, title
from .kept import Arrays, shown
from .measure import Measure, baseline_names, evaluation_sources
from .remarks import remarks, shared
from .results import Compared, ComparedRun, Comparison
from .style import kind_of
from .summary import intervals_by, near_least
from .text.measure import held_out_bits


def compare(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    folder: Path,
    device: str = "auto",
    figures: FigureSettings | None = None,
) -> Comparison:
    """Evaluate every run on the same prompts and compare the others with the first.

    Each is read at `evaluation.loops`, its own b by default. Writes into `folder`/compare-<hash>:
    comparison.json, comparison.npz (errors prompt by prompt) and figures/, as `figures` say, unless
    they are there. Raises ConfigError for fewer than two runs, a run named twice, or runs of
    different tasks.
    """
    _check(runs)
    arrays: dict[str, Arrays] = {}
    content = []
    for run in runs:
        with RunFolder(run.path).lock("evaluation"):
            measure = Measure(run, resolved(run, settings), device)
            arrays[_name(run)] = measure.model()
            if run.task.is_text:
                arrays[_name(run)]["held_out"] = held_out_bits(measure)
            sources = evaluation_sources(run.task, measure.settings)
            content.append([_name(run), measure.weights, asdict(measure.settings), sources])
            if run is runs[0]:
                baselines = {
                    name: measure.baseline(name) for name in baseline_names(run.task, settings)
                }
    result_folder = folder / f"compare-{key_of([content, list(baselines)], 8)}"
    result = _result(runs, settings, arrays, baselines)
    labels = run_labels(result)
    result["remarks"] = shared({labels[n]: entry["remarks"] for n, entry in result["runs"].items()})
    figures = figures or FigureSettings()

    def make() -> Iterator[Path]:
        errors = result_folder / "comparison.npz"
        flat = {f"{run}/{part}": each for run in arrays for part, each in arrays[run].items()}
        write_arrays(errors, flat)
        yield errors
        panels = comparison_panels(result, labels)
        yield from save_panels(
            result_folder / "figures", panels, figures, title(result), result["remarks"]
        )

    summary = {**result, "figures": figures.plain()}
    shown(result_folder / "comparison.json", "comparison", summary, make)
    return {**result, "path": str(result_folder)}


def _check(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise ConfigError("runs", f"must name at least two run folders, got {len(runs)}")
    paths = [run.path.resolve() for run in runs]
    names = [_name(run) for run in runs]
    for path, name in zip(paths, names, strict=True):
        if paths.count(path) > 1:
            raise ConfigError("runs", f"names {path} more than once")
        if names.count(name) > 1:
            raise ConfigError("runs", f"holds two folders called {name}: rename one of them")
    first, *other_runs = runs
    for other in other_runs:
        for key, value, other_value in (
            ("task", first.config.task.name, other.config.task.name),
            ("task.points", first.config.task.points, other.config.task.points),
            *_task_settings(first, other),
        ):
            if value != other_value:
                raise ConfigError(
                    "runs",
                    f"cannot be compared: {key} is {value} in {names[0]} and {other_value} in "
                    f"{_name(other)}",
                )


def _name(run: Run) -> str:
    return run.path.resolve().name


def _task_settings(first: Run, other: Run) -> list[tuple[str, Any, Any]]:
    """The settings of two runs' tasks, except the numbers of distinct prompts and functions."""
    first_settings, other_settings = asdict(first.task), asdict(other.task)
    keys = [key for key in first_settings | other_settings if "distinct_" not in key]
    return [(f"task.{key}", first_settings.get(key), other_settings.get(key)) for key in keys]


def _result(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    arrays: Mapping[str, Arrays],
    baselines: Mapping[str, tuple[str, Floats]],
) -> Comparison:
    intervals, first = intervals_by(settings), runs[0]

    def errors(values: Floats, bits: Floats | None) -> Compared:
        result: Compared = {
            "by_examples": intervals(values),
            "last": intervals(values[:, -1:]),
            "mean_over_k": intervals(values.mean(1, keepdims=True)),
        }
        if bits is not None:
            result["bits_per_byte"] = intervals(bits)
        return result

    def bits_of(run: Run) -> Floats | None:
        """[blocks, 1], at the loops that the run is read at; after b loops with early exit."""
        loops = resolved(run, settings).loops
        at = loops if isinstance(loops, int) else trained_loops(run.config)
        bits = arrays[_name(run)].get("held_out")
        return None if bits is None else bits[:, at - 1 : at]

    entries: dict[str, ComparedRun] = {}
    first_bits = bits_of(first)
    for run in runs:
        run_arrays, first_arrays = arrays[_name(run)], arrays[_name(first)]
        run_settings, bits = resolved(run, settings), bits_of(run)
        difference = None if bits is None or first_bits is None else bits - first_bits
        assert run_settings.loops is not None
        entries[_name(run)] = {
            "family": run.config.model.family,
            "style": kind_of(run.config.model),
            "seed": run.config.seed,
            "b": trained_loops(run.config),
            "step": run.step,
            "remarks": remarks(run),
            "loops": run_settings.loops,
            **errors(run_arrays["model"], bits),
            "by_loop": intervals(run_arrays["by_loop"]),
            "near_least": near_least(run_arrays["by_loop"], run_settings),
            "minus_first": errors(run_arrays["model"] - first_arrays["model"], difference),
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
        "labels": {name: label for name, (label, _) in baselines.items()},
        "baselines": {name: intervals(errors) for name, (_, errors) in baselines.items()},
    }


def run_labels(result: Comparison) -> dict[str, str]:
    """A short label for each run: its kind of model, loops and seed, and the end of its name if
    these are not unique."""
    labels = {
        name: f"{model_label(entry['style'], entry['loops'])}, seed {entry['seed']}"
        for name, entry in result["runs"].items()
    }
    all_labels = list(labels.values())
    return {
        name: label if all_labels.count(label) == 1 else f"{label} ({name.rpartition('-')[2]})"
        for name, label in labels.items()
    }
