"""Several runs of one task side by side, on the same prompts, with paired intervals.

result = compare([load_run(a), load_run(b)], EvaluationConfig(), Path("runs"))
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.checksum import key_of
from looplab.conf.in_words import told_apart
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig, FigureSettings
from looplab.conf.words import run_py
from looplab.training.run_folder.run import IRRELEVANT, Run

from .bootstrap import Band, Floats, Interval, crossed_means
from .drawing import save_panels
from .evaluate_run import measured, setting_words
from .figures import comparison_panels, model_label, run_labels, title
from .kept import Arrays, shown
from .remarks import remarks, shared
from .results import Evaluation, intervals_by

_OF_ALL = ("task", "dims", "divisor", "error", "prompts", "labels")
_OF_EACH = ("family", "style", "b", "step", "loops", "by_examples", "by_loop", "key")


def compare(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    folder: Path,
    device: str = "auto",
    figures: FigureSettings | None = None,
) -> dict[str, Any]:
    """Evaluate every run on the same prompts and compare the others with the first.

    Runs that differ in their seed alone are one of its `curves`, whose label says in words what
    sets it apart. Each is read at `evaluation.loops`, its own b by default, and its evaluation is
    kept in its folder. Writes into `folder`/compare-<hash>: comparison.json and figures/, as
    `figures` say, unless they are there; returns the content of comparison.json with its `path`.
    Each of `runs` has what its evaluation has, a language model `bits_per_byte` at these loops as
    well;
    `minus_first` has the errors by examples, or these bits, less the first run's, paired by prompt
    or block. Raises ConfigError for a run named twice, or runs of different tasks.
    """
    _check(runs)
    found = [measured(run, settings, device) for run in runs]
    entries, intervals = dict[str, Any](), intervals_by(settings)
    (first, of_first), figures = found[0], figures or FigureSettings()
    for run, (evaluation, arrays) in zip(runs, found, strict=True):
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
        "curves": _curves(runs, entries, [arrays for _, arrays in found], settings),
    }
    labels = run_labels(result)
    result["remarks"] = shared({labels[name]: each["remarks"] for name, each in entries.items()})
    place = folder / f"compare-{key_of([[name, each['key']] for name, each in entries.items()], 8)}"
    panels = comparison_panels(result)
    named = f"runs=[{','.join(run.path.as_posix() for run in runs)}]"
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
    return {**result, "path": str(place)}


def _curves(
    runs: Sequence[Run],
    entries: Mapping[str, Mapping[str, Any]],
    arrays: Sequence[Arrays],
    settings: EvaluationConfig,
) -> dict[str, Any]:
    """By label the runs of each curve, its errors by examples and by loop, and the former less the
    first curve's; of several seeds with intervals over seeds and prompts."""
    members: dict[str, list[int]] = {}
    for index, label in enumerate(_labels(runs, [*entries.values()])):
        members.setdefault(label, []).append(index)
    found, names = dict[str, Any](), [*entries]
    (reference, *_) = members.values()
    for label, of in members.items():
        entry = entries[names[of[0]]]
        curve = {key: entry[key] for key in ("style", "b")}
        curve |= {
            "runs": [names[index] for index in of],
            "by_examples": entry["by_examples"]["model"],
            "by_loop": entry["by_loop"]["model"],
            "minus_first": entry["minus_first"]["by_examples"],
        }
        if len(of) > 1:
            for part, key in (("by_examples", "model"), ("by_loop", "by_loop")):
                curve[part] = _interval(_stacked(arrays, of, key), None, settings)
        if len(of) > 1 or len(reference) > 1:
            first = _stacked(arrays, reference, "model")
            curve["minus_first"] = _interval(_stacked(arrays, of, "model"), first, settings)
        found[label] = curve
    return found


def _stacked(arrays: Sequence[Arrays], chosen: Sequence[int], key: str) -> Floats:
    """The errors of several seeds [seeds, prompts, ...], as far as the shortest goes."""
    length = min(arrays[index][key].shape[1] for index in chosen)
    return np.stack([arrays[index][key][:, :length] for index in chosen])


def _interval(errors: Floats, less: Floats | None, settings: EvaluationConfig) -> Band:
    """The mean of errors [seeds, prompts, ...] over both, less that of others on the same prompts,
    with its 90 % interval."""
    groups = [errors] if less is None else [errors, less]
    means = [group.mean((0, 1), dtype=np.float64) for group in groups]
    resampled = crossed_means(groups, settings.resamples, settings.seed)
    if less is not None:
        means, resampled = [means[0] - means[1]], [resampled[0] - resampled[1]]
    return Interval(means[0], *np.percentile(resampled[0], (5, 95), axis=0)).to_json()


def _labels(runs: Sequence[Run], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each run that says what sets it apart: kind of model and loops where these
    differ, then the settings in words; runs that differ in their seed alone share one, those that
    differ in nothing have their folders' names."""
    kinds = [model_label(entry["style"], entry["loops"]) for entry in entries]
    styles, words = [entry["style"] for entry in entries], [""] * len(runs)
    recipes = all(run.config.recipe for run in runs)
    for style in dict.fromkeys(styles):
        alike = [index for index, each in enumerate(styles) if each == style]
        covered = ("loops.b", "model.n_layer") if len({kinds[i] for i in alike}) > 1 else ()
        own = []
        for index in alike:
            config = runs[index].config
            flat = {"recipe": config.recipe if recipes else ""}
            flat |= flatten(config_to_mapping(config))
            # What follows from other settings comes last.
            keys = sorted(flat, key=lambda key: key.startswith(("training.", "curriculum.")))
            left_out = tuple(key for key in IRRELEVANT if key != "recipe")
            own.append(
                {k: flat[k] for k in keys if not k.startswith(left_out) and k not in covered}
            )
        for index, said in zip(alike, told_apart(own), strict=True):
            words[index] = said
    shown = kinds if len({*kinds}) > 1 or not any(words) else [""] * len(runs)
    labels = [", ".join(filter(None, pair)) for pair in zip(shown, words, strict=True)]
    seeds = [(label, run.config.seed) for label, run in zip(labels, runs, strict=True)]
    return [
        label if seeds.count(pair) == 1 else _name(run)
        for label, pair, run in zip(labels, seeds, runs, strict=True)
    ]


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
