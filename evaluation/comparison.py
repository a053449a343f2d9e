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
from looplab.conf.words import run_py
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.files import write_arrays
from looplab.training.run_folder.run import Run, RunFolder

from .bootstrap import Floats
from .drawing import save_panels
from .errors import error_name
from .evaluate_run import resolved, setting_words
from .figures import comparison_panels, run_labels, title
from .kept import Arrays, shown
from .measure import Measure, baseline_names, evaluation_sources
from .remarks import remarks, shared
from .style import kind_of
from .summary import intervals_by, near_least
from .text.measure import held_out_bits


def compare(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    folder: Path,
    device: str = "auto",
    figures: FigureSettings | None = None,
) -> dict[str, Any]:
    """Evaluate every run on the same prompts and compare the others with the first.

    Each is read at `evaluation.loops`, its own b by default. Writes into `folder`/compare-<hash>:
    comparison.json, comparison.npz (errors prompt by prompt) and figures/, as `figures` say, unless
    they are there; returns the content of comparison.json with its `path`. Each of `runs` has
    errors `by_examples`, at the `last` number of them, `mean_over_k` and `by_loop`, of language
    models `bits_per_byte`; `minus_first` has the same less the first run's, paired by prompt or
    block. Raises ConfigError for fewer than two runs, a run named twice, or runs of
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
    place = folder / f"compare-{key_of([content, list(baselines)], 8)}"
    result = _result(runs, settings, arrays, baselines)
    figures = figures or FigureSettings()
    panels = comparison_panels(result)

    def make() -> Iterator[Path]:
        errors = place / "comparison.npz"
        flat = {f"{run}/{part}": each for run in arrays for part, each in arrays[run].items()}
        write_arrays(errors, flat)
        yield errors
        yield from save_panels(place / "figures", panels, figures, title(result), result["remarks"])

    named = f"runs=[{','.join(run.path.as_posix() for run in runs)}]"
    words = setting_words(settings, EvaluationConfig())
    content_shown = {
        **result,
        "title": f"{title(result)}: {', '.join(run_labels(result).values())}",
        "command": run_py("action=compare", named, *words),
        "panels": [panel.plain() for panel in panels],
        "figures": figures.plain(),
    }
    shown(place / "comparison.json", "comparison", content_shown, make)
    return {**result, "path": str(place)}


def _check(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise ConfigError("runs", f"must name at least two run folders, got {len(runs)}")
    names = [_name(run) for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("runs", f"names {name} more than once")
    first, *others = map(_task_settings, runs)
    for name, other in zip(names[1:], others, strict=True):
        for key in first | other:
            value, other_value = first.get(key), other.get(key)
            if value != other_value:
                raise ConfigError(
                    "runs",
                    f"cannot be compared: {key} is {value} in {names[0]} and {other_value} in "
                    f"{name}",
                )


def _name(run: Run) -> str:
    return run.path.resolve().name


def _task_settings(run: Run) -> dict[str, Any]:
    """A run's task and its settings, except the numbers of distinct prompts and functions."""
    task = run.config.task
    own = {f"task.{key}": each for key, each in asdict(run.task).items() if "distinct_" not in key}
    return {"task": task.name, "task.points": task.points, **own}


def _result(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    arrays: Mapping[str, Arrays],
    baselines: Mapping[str, tuple[str, Floats]],
) -> dict[str, Any]:
    intervals, first = intervals_by(settings), runs[0]

    def errors(values: Floats, bits: Floats | None) -> dict[str, Any]:
        """`bits` [blocks, 1] are those of the held-out text."""
        return {
            "by_examples": intervals(values),
            "last": intervals(values[:, -1:]),
            "mean_over_k": intervals(values.mean(1, keepdims=True)),
            **({} if bits is None else {"bits_per_byte": intervals(bits)}),
        }

    def bits_of(run: Run) -> Any:
        """[blocks, 1], at the loops that the run is read at; after b loops with early exit."""
        loops = resolved(run, settings).loops
        at = loops if isinstance(loops, int) else trained_loops(run.config)
        bits = arrays[_name(run)].get("held_out")
        return None if bits is None else bits[:, at - 1 : at]

    entries = {}
    for run in runs:
        run_arrays, bits, run_settings = arrays[_name(run)], bits_of(run), resolved(run, settings)
        difference = None if bits is None else bits - bits_of(first)
        lines = remarks(run)
        entries[_name(run)] = {
            "family": run.config.model.family,
            "style": kind_of(run.config.model),
            "seed": run.config.seed,
            "b": trained_loops(run.config),
            "step": run.step,
            "remarks": lines,
            "loops": run_settings.loops,
            **errors(run_arrays["model"], bits),
            "by_loop": intervals(run_arrays["by_loop"]),
            "near_least": near_least(run_arrays["by_loop"], run_settings),
            "minus_first": errors(run_arrays["model"] - arrays[_name(first)]["model"], difference),
        }
    result: dict[str, Any] = {
        "task": first.config.task.name,
        "dims": first.config.task.dims,
        "remarks": [],
        "error": error_name(first.task),
        "divisor": first.task.divisor,
        "prompts": settings.prompts,
        "seed": settings.seed,
        "k": list(range(first.config.task.points)),
        "runs": entries,
        "labels": {name: label for name, (label, _) in baselines.items()},
        "baselines": {name: intervals(errors) for name, (_, errors) in baselines.items()},
    }
    labels = run_labels(result)
    result["remarks"] = shared({labels[name]: each["remarks"] for name, each in entries.items()})
    return result
