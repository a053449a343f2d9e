"""Several runs of one task side by side, on the same prompts, with paired intervals.

result = compare(["runs/A", "runs/B"], prompts=320)
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from looplab.conf.checks.folders import check_folder
from looplab.conf.checksum import key_of
from looplab.conf.in_words import labels_of
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, FigureSettings
from looplab.conf.words import run_py
from looplab.training.device import torch_defaults
from looplab.training.run_folder.run import IRRELEVANT, Run

from .bootstrap import Band, Floats, Interval, crossed_means
from .drawing import save_panels
from .evaluate_run import changed, measured, setting_words
from .figures import comparison_panels, run_labels, title
from .kept import Arrays, shown
from .load import run_of
from .remarks import remarks, shared
from .report import Result
from .results import Evaluation, intervals_by

_OF_ALL = ("task", "dims", "divisor", "error", "prompts", "labels")
_OF_EACH = ("family", "style", "b", "step", "loops", "by_examples", "by_loop", "key")


@torch_defaults()
def compare(
    runs: Sequence[Run | str | PathLike[str]],
    settings: EvaluationConfig | None = None,
    folder: str | PathLike[str] = Config.folder,
    device: str = "auto",
    figures: FigureSettings | None = None,
    **changes: Any,
) -> Result:
    """Evaluate every run on the same prompts and compare the others with the first.

    Runs that differ in their seed alone are one of its `curves`, whose label says in words what
    sets it apart. Each is read at `evaluation.loops`, its own b by default, and its evaluation is
    kept in its folder.

    Parameters
    ----------
    runs : sequence of Run, str or path
        Of the same task.
    folder : str or path
        Where compare-HASH/ with comparison.json and figures/ is made.
    settings, device, figures, **changes
        As of `evaluate`, the same for all.

    Returns
    -------
    dict
        The content of comparison.json with its `path`. Each of its `runs` has what its evaluation
        has, a language model `bits_per_byte` at these loops as well; `minus_first` has the errors
        by examples, or these bits, less the first run's, paired by prompt or block.

    Raises
    ------
    ConfigError
        For a run named twice, runs of different tasks, or a wrong setting.

    Examples
    --------
    >>> from looplab import compare
    >>> result = compare(["shipped/linear", "shipped/linear-standard"], prompts=16, resamples=20)
    >>> len(result["runs"])
    2
    """
    members, settings = [*map(run_of, runs)], settings or EvaluationConfig()
    check_folder("folder", str(folder))
    _check(members)
    for run in members:
        settings = changed(settings, changes, run.config)
    found = [measured(run, settings, device) for run in members]
    entries, intervals = dict[str, Any](), intervals_by(settings)
    (first, of_first), figures = found[0], figures or FigureSettings()
    for run, (evaluation, arrays) in zip(members, found, strict=True):
        minus_first = {"by_examples": intervals(arrays["model"] - of_first["model"])}
        entry = {key: evaluation[key] for key in _OF_EACH}
        if "held_out" in arrays:
            bits = _bits(evaluation, arrays)
            entry["bits_per_byte"] = intervals(bits)
            minus_first["bits_per_byte"] = intervals(bits - _bits(first, of_first))
        more = {"seed": run.config.seed, "remarks": remarks(run), "minus_first": minus_first}
        entries[_name(run)] = entry | more
    result = {key: first[key] for key in _OF_ALL} | {
        "seed": settings.seed,
        "named": settings.baselines is not None,
        "runs": entries,
        "curves": _curves(members, entries, [arrays for _, arrays in found], settings),
    }
    if settings.normalise != "none":
        result["normalise"] = settings.normalise
    labels = run_labels(result)
    result["remarks"] = shared({labels[name]: each["remarks"] for name, each in entries.items()})
    key = key_of([[name, each["key"]] for name, each in entries.items()], 8)
    place = Path(folder, f"compare-{key}")
    panels = comparison_panels(result)
    named = f"runs=[{','.join(run.path.as_posix() for run in members)}]"
    content = {
        **result,
        "title": f"{title(result)}: {', '.join(result['curves'])}",
        "command": run_py("action=compare", named, *setting_words(settings, EvaluationConfig())),
        "panels": [panel.plain() for panel in panels],
        "figures": figures.plain(),
    }

    def make() -> list[Path]:
        return save_panels(place / "figures", panels, figures, title(result), result["remarks"])

    shown(place / "comparison.json", "comparison", content, make)
    return Result({**result, "path": str(place)})


def _curves(
    runs: Sequence[Run],
    entries: Mapping[str, Mapping[str, Any]],
    arrays: Sequence[Arrays],
    settings: EvaluationConfig,
) -> dict[str, Any]:
    """By label the runs of each curve, its errors by examples and by loop, and the former less the
    first curve's, with intervals over seeds and prompts. Runs that differ in nothing, not even
    their seed, have their folders' names."""
    labels = labels_of([run.config for run in runs], IRRELEVANT)
    seeds = [(label, run.config.seed) for label, run in zip(labels, runs, strict=True)]
    members: dict[str, list[int]] = {}
    for index, pair in enumerate(seeds):
        label = pair[0] if seeds.count(pair) == 1 else _name(runs[index])
        members.setdefault(label, []).append(index)

    def stacked(key: str, of: Sequence[int]) -> Floats:
        length = min(arrays[index][key].shape[1] for index in of)
        return np.stack([arrays[index][key][:, :length] for index in of]).astype(np.float64)

    def band(errors: Floats, less: Floats | None = None) -> Band:
        both = [errors] if less is None else [errors, less]
        mean, *other = (each.mean((0, 1)) for each in both)
        drawn, *others = crossed_means(both, settings.resamples, settings.seed)
        if less is not None:
            mean, drawn = mean - other[0], drawn - others[0]
        return Interval(mean, *np.percentile(drawn, (5, 95), axis=0)).to_json()

    found, names = dict[str, Any](), [*entries]
    for label, of in members.items():
        first, errors = next(iter(members.values())), stacked("model", of)
        found[label] = {
            "runs": [names[index] for index in of],
            **{key: entries[names[of[0]]][key] for key in ("style", "b")},
            "by_examples": band(errors),
            "by_loop": band(stacked("by_loop", of)),
            "minus_first": band(errors, stacked("model", first)),
        }
    return found


def _bits(evaluation: Evaluation, arrays: Arrays) -> Floats:
    """The bits per byte of the held-out text's blocks [blocks, 1], at the loops that errors by
    examples are read at; after b loops with early exit."""
    loops = evaluation["b"] if evaluation["loops"] == "auto" else evaluation["loops"]
    return arrays["held_out"][:, loops - 1 : loops]


def _check(runs: Sequence[Run]) -> None:
    names = [_name(run) for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("runs", f"names {name} more than once")
    first, *others = map(_task_settings, runs)
    for name, other in zip(names[1:], others, strict=True):
        for key in first | other:
            if (value := first.get(key)) != (its := other.get(key)):
                problem = f"{key} is {value} in {names[0]} and {its} in {name}"
                raise ConfigError("runs", f"cannot be compared: {problem}")


def _name(run: Run) -> str:
    return run.path.resolve().name


def _task_settings(run: Run) -> dict[str, Any]:
    """A run's task and its settings, except the numbers of distinct prompts and functions."""
    task = run.config.task
    own = {f"task.{key}": each for key, each in asdict(run.task).items() if "distinct_" not in key}
    return {"task": task.name, "task.points": task.points, **own}
