"""Several runs of one task side by side, on the same prompts, with paired intervals.

result = compare([load_run(a), load_run(b)], EvaluationConfig(), Path("runs"))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig, FigureSettings
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.files import write_arrays
from looplab.training.run_folder.run import Run, RunFolder

from .artefacts import Arrays, is_shown, show
from .bootstrap import Floats
from .errors import error_name
from .evaluate_run import resolved
from .figures import (
    AnyCurve,
    Pictures,
    band,
    error_axis,
    error_scale,
    mark_loops,
    note_level,
    padded,
    whole_numbers,
)
from .figures.evaluation import finish, model_label
from .measure import Measure, baseline_names, evaluation_sources
from .remarks import remarks, shared
from .results import Compared, ComparedRun, Comparison, by_loop_name, examples_name
from .style import LineStyle, kind_of, styles_of
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
    result_folder.mkdir(parents=True, exist_ok=True)
    flat = {
        f"{run}/{part}": values for run, parts in arrays.items() for part, values in parts.items()
    }
    path, errors = result_folder / "comparison.json", result_folder / "comparison.npz"
    figures = figures or FigureSettings()
    shown = {**json.loads(json.dumps(result)), "figures": figures.plain()}
    if not is_shown(path, "comparison", shown):
        write_arrays(errors, flat)
        with Pictures(result_folder / "figures", figures) as pictures:
            draw_comparison(result, pictures)
        show(path, "comparison", shown, [errors, *pictures.files])
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


def draw_comparison(result: Comparison, pictures: Pictures) -> None:
    """Draw a comparison's three pictures."""
    labels = run_labels(result)
    _by_examples(result, labels, pictures)
    _by_loop(result, labels, pictures)
    _differences(result, labels, pictures)


def run_labels(result: Comparison) -> dict[str, str]:
    """A short label for each run: its kind of model, loops and seed, and the end of its name if
    these are not unique."""
    labels = {
        name: f"{model_label(_kind(entry), entry['loops'])}, seed {entry['seed']}"
        for name, entry in result["runs"].items()
    }
    all_labels = list(labels.values())
    return {
        name: label if all_labels.count(label) == 1 else f"{label} ({name.rpartition('-')[2]})"
        for name, label in labels.items()
    }


def _kind(entry: ComparedRun) -> str:
    """The kind of a run's curves; its family in a file that is older than the kinds."""
    return entry.get("style", entry["family"])


def _styles(result: Comparison) -> dict[str, LineStyle]:
    """The styles of runs and solvers, the same in all three pictures."""
    kinds = {run: _kind(entry) for run, entry in result["runs"].items()}
    kinds |= {name: name for name in result["baselines"]}
    return dict(zip(kinds, styles_of(list(kinds.values())), strict=True))


def _by_examples(result: Comparison, labels: Mapping[str, str], pictures: Pictures) -> None:
    figure, styles = pictures.figure(), _styles(result)
    axes = figure.subplots()
    run_curves = {run: entry["by_examples"] for run, entry in result["runs"].items()}
    for run, curve in run_curves.items():
        band(axes, result["k"], curve, labels[run], styles[run])
    for name, curve in result["baselines"].items():
        band(axes, result["k"], curve, result["labels"][name], styles[name])
    error_axis(axes, result["error"], list(run_curves.values()), list(result["baselines"].values()))
    _finish(figure, result, pictures, "error_by_examples", run_curves | result["baselines"])


def _differences(result: Comparison, labels: Mapping[str, str], pictures: Pictures) -> None:
    figure, styles = pictures.figure(), _styles(result)
    axes = figure.subplots()
    first, *other_runs = result["runs"]
    curves = {run: result["runs"][run]["minus_first"]["by_examples"] for run in other_runs}
    for run, curve in curves.items():
        band(axes, result["k"], curve, labels[run], styles[run])
    note_level(axes, 0, labels[first])
    axes.set_ylabel(f"{result['error']}, less the first run's")
    _finish(figure, result, pictures, "difference_by_examples", curves)


def _finish(
    figure: Figure,
    result: Comparison,
    pictures: Pictures,
    name: str,
    curves: Mapping[str, AnyCurve],
) -> None:
    (axes,) = figure.axes
    axes.set_xlabel(examples_name(result["error"]))
    whole_numbers(axes)
    finish(figure, result, pictures, name, "k", result["k"], curves)


def _by_loop(result: Comparison, labels: Mapping[str, str], pictures: Pictures) -> None:
    figure, styles = pictures.figure(), _styles(result)
    axes = figure.subplots()
    curves = {run: entry["by_loop"] for run, entry in result["runs"].items()}
    max_loops = max(len(curve["mean"]) for curve in curves.values())
    loops = list(range(1, max_loops + 1))
    columns = {run: padded(curve, max_loops) for run, curve in curves.items()}
    for run, curve in columns.items():
        band(axes, loops, curve, labels[run], styles[run])
    for b in sorted({entry["b"] for entry in result["runs"].values()}):
        mark_loops(axes, b)
    axes.set_xlabel("loop (layer, for standard models)")
    axes.set_ylabel(by_loop_name(result["error"], result["k"][-1]))
    error_scale(axes, result["error"])
    whole_numbers(axes)
    finish(figure, result, pictures, "error_by_loop", "loop", loops, columns)
