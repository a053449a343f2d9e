"""The pictures that all runs have, each built in one place: errors by examples, by loop, by the
values of a setting, and on shifted inputs.

by_examples("error", "Linear functions", error, curves)
curve_of("looped, b = 12", group, "by_loop")
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from looplab.conf.build import setting_of
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.groups import Group
from looplab.evaluation.measured import Measured
from looplab.evaluation.results import (
    ERROR_RATE,
    NATS,
    ZERO,
    by_loop_name,
    error_name,
    examples_name,
    levels_of,
    unit,
    unit_of_shifts,
)
from looplab.evaluation.statistics import interval_over_seeds
from looplab.training.assemble import build_task

from .panel import Curve, Panel
from .style import STYLES

_FAR = 3  # times the error of predicting zero, or of the worst model
_POOR = 0.5  # of the error of predicting zero, which a solver of any use falls below
_WIDE = 8  # the largest value over the smallest from which on an axis is logarithmic
Labelled = tuple[str, Group[Measured]]


def errors_panel(
    name: str,
    title: str,
    error: str,
    axes: tuple[str, str],
    x: Sequence[float],
    curves: Sequence[Curve],
    levels: Mapping[str, float] | None = None,
) -> Panel:
    """A panel of errors: rates from 0, nats as they are, all others on a log scale."""
    is_plain = error in (ERROR_RATE, NATS)
    return Panel(
        name,
        title,
        *axes,
        x,
        curves,
        log="" if is_plain else "y",
        limits=(0 if error == ERROR_RATE else None, None),
        levels=levels or {},
    )


def by_examples(
    name: str,
    title: str,
    error: str,
    curves: Sequence[Curve],
    *,
    named: bool = False,
    levels: Mapping[str, float] | None = None,
    y_label: str = "",
) -> Panel:
    """Errors by the number of examples, from none, with the level of a model that knows nothing.

    `named`: whether the solvers were asked for, so that none is left out. On shifted inputs there
    are other `levels`, and the errors may be in another unit, `y_label`.
    """
    levels = levels_of(error) if levels is None else levels
    axes = (examples_name(error), y_label or error)
    k = range(max(len(curve.mean) for curve in curves))
    return without_far(errors_panel(name, title, error, axes, k, curves, levels), named)


def by_loop(
    name: str,
    title: str,
    error: str,
    curves: Sequence[Curve],
    standard: Collection[bool],
    y_label: str = "",
) -> Panel:
    """Errors by loop, from loop 1 to the last of the longest curve. `standard` says which models
    are standard ones, with layers for loops; `y_label` is by default that of the last query's
    error."""
    loops = range(1, max(len(curve.mean) for curve in curves) + 1)
    axes = (loop_axis(standard), y_label or by_loop_name(error))
    return errors_panel(name, title, error, axes, loops, curves)


def loop_axis(standard: Collection[bool]) -> str:
    """The name of an axis of loops, by which of its models are standard ones, with layers."""
    name = unit("standard" if all(standard) else "looped")
    return f"{name} (layer, for standard models)" if len({*standard}) > 1 else name


def without_far(panel: Panel, named: bool) -> Panel:
    """The panel of models without the solvers that stand no comparison, which stay in its table;
    with them where they were `named`. Their errors lie somewhere far above those of predicting zero
    and of every model; or above, where they are nowhere much less than that of predicting zero, as
    of nearest neighbours in 20 dimensions."""
    models = [value for each in panel.curves if not each.solver for value in each.mean if value]
    worst = max([*panel.levels.values(), *models], default=np.inf)
    zero = panel.levels.get(ZERO, np.inf)
    poor = []
    for each in panel.curves:
        if not each.solver or named:
            continue
        errors = [value for value in each.mean if value is not None]
        is_worse = any(low is not None and low > worst for low in each.low)
        is_far = max(errors, default=0.0) > _FAR * worst
        if is_far or (is_worse and min(errors) > _POOR * zero):
            poor.append(each)
    left = [each for each in panel.curves if each not in poor]
    return replace(panel, curves=left, undrawn=poor)


# From here on of groups of runs, each with its label.


def examples_of(groups: Sequence[Labelled], name: str, title: str, shift: str = "") -> Panel:
    """The errors of groups by number of examples, on shifted inputs if one is named, with those of
    the solvers, which are the same beside all runs."""
    prefix = f"{shift}/" if shift else ""
    curves = [curve_of(label, group, f"{prefix}model") for label, group in groups]
    run = groups[0][1].runs[0]
    for solver, label in run.labels.get(shift, {}).items():
        if f"{prefix}{solver}" in run.arrays:
            interval = interval_over_seeds([run.errors(f"{prefix}{solver}")[None]])
            curves.append(Curve.of(label, solver, interval, name=solver, solver=True))
    error = error_name(build_task(run.config))
    levels = levels_of(error)
    if shift and ZERO in levels:
        levels = {ZERO: run.zero[shift]}
    y_label = unit_of_shifts(error) if shift else error
    named = run.config.evaluation.baselines is not None
    return by_examples(name, title, error, curves, named=named, levels=levels, y_label=y_label)


def loops_of(groups: Sequence[Labelled], name: str, title: str) -> Panel:
    """The last query's errors of groups by loop; of a text the bits per byte of its held-out
    part."""
    config = groups[0][1].config
    error = error_name(build_task(config))
    y_label = "bits per byte" if config.task.is_text else by_loop_name(error)
    key = "held_out" if config.task.is_text else "by_loop"
    curves = [curve_of(label, group, key) for label, group in groups]
    longest = max(len(curve.mean) for curve in curves)
    for index, (_, group) in enumerate(groups):
        if config.task.is_text and group.family == "standard":
            # A level beside the loops: no layer but the last was trained to be read.
            curves[index] = _level(curves[index], longest)
    standard = [group.family == "standard" for _, group in groups]
    panel = by_loop(name, title, error, curves, standard, y_label)
    return replace(panel, levels=levels_of(error))


def values_of(groups: Sequence[Labelled], name: str, title: str, key: str, x_label: str) -> Panel:
    """The last query's errors of groups over the values of the setting `key`, a curve for each
    label; of a text the bits per byte after all loops."""
    config = groups[0][1].config
    values = sorted({float(setting_of(group.config, key)) for _, group in groups})
    curves = []
    for label in dict.fromkeys(label for label, _ in groups):
        own = {
            float(setting_of(group.config, key)): group for other, group in groups if other == label
        }
        missing = (np.nan, np.nan, np.nan)
        points = [
            interval_over_seeds([_last_errors(own[value])], log=True) if value in own else missing
            for value in values
        ]
        first = next(iter(own.values()))
        curves.append(_curve(label, first, Interval(*np.array(points).T)))
    error = error_name(build_task(config))
    y_label = "bits per byte" if config.task.is_text else by_loop_name(error)
    panel = errors_panel(name, title, error, (x_label, y_label), values, curves, levels_of(error))
    if 0 < _WIDE * values[0] <= values[-1]:
        panel = replace(panel, log=f"{panel.log}x")
    return panel


def curve_of(label: str, group: Group[Measured], name: str) -> Curve:
    """A group's errors of this name, [seeds, prompts, x], as a curve with its band over seeds and
    prompts."""
    return _curve(label, group, interval_over_seeds([group.errors(name)], log=True))


def _curve(label: str, group: Group[Measured], interval: Interval) -> Curve:
    """A curve in the label's own style where it has one (recipes, residual scalings), else in that
    of its model."""
    model = group.config.model
    kind = label if label in STYLES else model.connectivity or model.family
    b = None if model.family == "standard" else group.b
    return Curve.of(label, kind, interval, b=b)


def _level(curve: Curve, length: int) -> Curve:
    """The last value of a curve, so many times."""
    ends = {part: [getattr(curve, part)[-1]] * length for part in ("mean", "low", "high")}
    return replace(curve, mean=ends["mean"], low=ends["low"], high=ends["high"])


def _last_errors(group: Group[Measured]) -> Floats:
    """The last query's errors, [seeds, prompts]; of a text the bits per byte of its blocks."""
    if group.config.task.is_text:
        return group.errors("held_out")[..., group.b - 1]
    return group.errors()[..., -1]
