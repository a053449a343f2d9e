"""The pictures of an experiment as numbers: curves of its runs and of the solvers beside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.build import setting_of
from looplab.conf.in_words import in_words, name_in_words, task_in_words
from looplab.evaluation.bootstrap import Interval, clustered_bootstrap
from looplab.evaluation.measured import Measured
from looplab.evaluation.results import (
    ZERO,
    by_loop_name,
    error_name,
    examples_name,
    levels_of,
    unit_of_shifts,
)
from looplab.tasks import SHIFTS
from looplab.training.assemble import build_task, trained_loops

from .figures import loop_axis, without_far
from .panel import Curve, Panel, file_name
from .panel_spec import PanelSpec
from .style import STYLES

_WIDE = 8  # the largest value over the smallest from which on an axis is logarithmic
_RESAMPLES, _SEED = 1000, 2024
_NOTHING = Interval(*(np.array(np.nan) for _ in range(3)))


def panels(specs: Sequence[PanelSpec], runs: Sequence[Measured]) -> list[Panel]:
    """The panels of all pictures: one for each task among the runs, and for each value of the
    setting that the picture is split by. Runs of one label and panel are seeds of one curve."""
    found: list[Panel] = []
    for spec in specs:
        parts: dict[str, list[Measured]] = {}
        for run in runs:
            task = run.config.task
            named = task.name.replace("_", " ") + ("" if task.is_text else f", d = {task.dims}")
            if spec.split:
                named += f", {in_words(spec.split, setting_of(run.config, spec.split))}"
            parts.setdefault(named, []).append(run)
        for named, part in parts.items():
            name = "-".join(filter(None, (spec.kind, file_name(named))))
            title = _title(part, spec.split)
            if spec.kind == "by_examples":
                found.append(_by_examples(part, name, title))
            elif spec.kind == "shifts":  # a panel for each kind that all runs were read on
                for shift in SHIFTS:
                    if all(f"{shift}/model" in run.arrays for run in part):
                        label = f"{title}, {SHIFTS[shift].label}"
                        found.append(_by_examples(part, f"{name}-{shift}", label, shift))
            else:
                found.append(_by_loop_or_value(spec, part, name, title))
    return found


def _title(runs: Sequence[Measured], split: str) -> str:
    """The functions of a panel's runs, and their value of the setting that it is split by."""
    config = runs[0].config
    dims = 0 if config.task.is_text else config.task.dims
    sparsities = {run.config.task.settings.get("sparsity", 0) for run in runs}
    title = task_in_words(config.task.name, dims, sparsities.pop() if len(sparsities) == 1 else 0)
    if split in ("", "task.sparsity"):  # which the words have
        return title
    return f"{title}, {in_words(split, setting_of(config, split))}"


def _by_examples(runs: Sequence[Measured], name: str, title: str, shift: str = "") -> Panel:
    """The errors by number of examples, on shifted inputs if one is named, with those of the
    solvers, which are the same beside all runs."""
    prefix = f"{shift}/" if shift else ""
    curves = _curves(runs, f"{prefix}model")
    for solver, label in runs[0].labels.get(shift, {}).items():
        if (errors := runs[0].arrays.get(f"{prefix}{solver}")) is not None:
            interval = _interval([errors])
            curves.append(Curve.of(label, solver, interval, name=solver, solver=True))
    error = error_name(build_task(runs[0].config))
    ks = range(len(curves[0].mean))
    levels = levels_of(error)
    if shift and ZERO in levels:
        levels = {ZERO: runs[0].zero[shift]}
    axes = (examples_name(error), unit_of_shifts(error) if shift else error)
    panel = Panel(name, title, *axes, ks, curves, log="y", levels=levels)
    return without_far(panel, runs[0].config.evaluation.baselines is not None)


def _by_loop_or_value(spec: PanelSpec, runs: Sequence[Measured], name: str, title: str) -> Panel:
    """The error by loop, or over the values of a setting; of a text the bits per byte of its
    held-out part, on a plain axis, where no level is zero's."""
    is_text = runs[0].config.task.is_text
    x: Sequence[float]
    log = "" if is_text else "y"
    if spec.kind == "by_loop":
        key = "held_out" if is_text else "by_loop"
        x = range(1, max(run.arrays[key].shape[1] for run in runs) + 1)
        curves = _curves(runs, key)
    else:
        x = sorted({float(setting_of(run.config, spec.x)) for run in runs})
        curves = _over_values(spec, runs, x)
        log += "x" * (0 < _WIDE * x[0] <= x[-1])
    loops = loop_axis([run.config.model.family == "standard" for run in runs])
    x_label = name_in_words(spec.x) if spec.x else loops
    error = error_name(build_task(runs[0].config))
    axes = (x_label, "bits per byte" if is_text else by_loop_name(error))
    return Panel(name, title, *axes, x, curves, log=log, levels=levels_of(error))


def _curves(runs: Sequence[Measured], key: str) -> list[Curve]:
    """A curve for each label, of the arrays [prompts, x] of this name: means over prompts and
    seeds. None beyond the shortest of its seeds, where another label's goes on."""
    length, curves = max(run.arrays[key].shape[1] for run in runs), []
    for label in dict.fromkeys(run.label for run in runs):
        same = [run for run in runs if run.label == label]
        shortest = min(run.arrays[key].shape[1] for run in same)
        interval = _interval([run.arrays[key][:, :shortest] for run in same])
        config = same[0].config
        if config.task.is_text and config.model.family == "standard":
            # A level beside the loops: no layer but the last was trained to be read.
            interval = Interval(*(np.full(length, each[-1]) for each in interval))
            shortest = length
        beyond = [(0, length - shortest)]
        padded = (np.pad(each, beyond, constant_values=np.nan) for each in interval)
        curves.append(_curve(same[0], Interval(*padded)))
    return curves


def _over_values(spec: PanelSpec, runs: Sequence[Measured], values: Sequence[float]) -> list[Curve]:
    """A curve for each label, of the errors of its runs at each value of the setting."""
    curves = []
    for label in dict.fromkeys(run.label for run in runs):
        same, points = [run for run in runs if run.label == label], []
        for value in values:
            part = [run for run in same if float(setting_of(run.config, spec.x)) == value]
            points.append(_interval([*map(_error, part)]) if part else _NOTHING)
        curves.append(_curve(same[0], Interval(*map(np.array, zip(*points, strict=True)))))
    return curves


def _curve(run: Measured, interval: Interval) -> Curve:
    """The curve of a run's label, in its own style where it has one (recipes, residual scalings),
    else in that of its model."""
    model = run.config.model
    b = None if model.family == "standard" else trained_loops(run.config)
    kind = run.label if run.label in STYLES else model.connectivity or model.family
    return Curve.of(run.label, kind, interval, b=b)


def _interval(errors: Sequence[NDArray[Any]]) -> Interval:
    """Mean over seeds and prompts of errors [prompts, ...], one of each seed, with a bootstrap over
    both."""
    stacked = np.stack(errors)
    return clustered_bootstrap(stacked, np.ones(stacked.shape[1], int), _RESAMPLES, _SEED)


def _error(run: Measured) -> NDArray[Any]:
    """The error of each prompt's last query; of a text the bits per byte of each block of its
    held-out part."""
    if run.config.task.is_text:
        return run.arrays["held_out"][:, trained_loops(run.config) - 1]
    return run.arrays["model_at_b"][:, -1]
