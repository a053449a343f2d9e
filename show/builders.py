"""The pictures that all runs have, each built in one place: errors by examples, by loop, by the
values of a setting, and on shifted inputs.

by_examples("error", "Linear functions", error, curves)
curve_of("looped, b = 12", group, "by_loop")
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from looplab.conf.build import setting_of
from looplab.conf.schema import Config
from looplab.evaluation.bootstrap import Floats, Interval
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.groups import Group
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
Labelled = tuple[str, Group[EvaluatedRun]]


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
    log = "" if error in (ERROR_RATE, NATS) else "y"
    least = 0 if error == ERROR_RATE else None
    x_label, y_label = axes
    panel = Panel(name, title, x_label, y_label, x, curves, log, limits=(least, None))
    return replace(panel, levels=levels) if levels else panel


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
    x_label = unit("standard" if all(standard) else "looped")
    if len(set(standard)) > 1:
        x_label += " (layer, for standard models)"
    axes = (x_label, y_label or by_loop_name(error))
    return errors_panel(name, title, error, axes, loops, curves)


def without_far(panel: Panel, named: bool) -> Panel:
    """The panel of models without the solvers that stand no comparison, which stay in its table;
    with them where they were `named`.

    Their errors lie somewhere far above those of predicting zero and of every model; or above,
    where they are nowhere much less than that of predicting zero, as of nearest neighbours in 20
    dimensions.
    """
    known = list(panel.levels.values())
    for curve in panel.curves:
        if not curve.solver:
            known += [value for value in curve.mean if value]
    worst = max(known, default=np.inf)
    zero = panel.levels.get(ZERO, np.inf)
    drawn = []
    poor = []
    for curve in panel.curves:
        errors = [value for value in curve.mean if value is not None]
        is_far = max(errors, default=0.0) > _FAR * worst
        # Somewhere surely above: by the low end of its interval.
        is_worse = any(low is not None and low > worst for low in curve.low)
        is_poor = is_far or (is_worse and min(errors) > _POOR * zero)
        if curve.solver and is_poor and not named:
            poor.append(curve)
        else:
            drawn.append(curve)
    return replace(panel, curves=drawn, undrawn=poor)


# From here on of groups of runs, each with its label.


def examples_of(groups: Sequence[Labelled], name: str, title: str, shift: str = "") -> Panel:
    """The errors of groups by number of examples, on shifted inputs if one is named. Those of the
    solvers are the same beside all runs."""
    prefix = f"{shift}/" if shift else ""
    curves = [curve_of(label, group, f"{prefix}model") for label, group in groups]
    run = groups[0][1].runs[0]
    for solver, label in run.labels.get(shift, {}).items():
        if f"{prefix}{solver}" in run.arrays:
            errors = run.errors(f"{prefix}{solver}")
            interval = interval_over_seeds([errors[None]])  # no seeds, but one of them
            curves.append(Curve.of(label, solver, interval, name=solver, solver=True))
    error = error_name(build_task(run.config))
    y_label = unit_of_shifts(error) if shift else error
    levels = levels_of(error)
    if shift and ZERO in levels:
        levels = {ZERO: run.zero[shift]}
    named = run.config.evaluation.baselines is not None
    return by_examples(name, title, error, curves, named=named, levels=levels, y_label=y_label)


def loops_of(groups: Sequence[Labelled], name: str, title: str) -> Panel:
    """The last query's errors of groups by loop; of a text the bits per byte of its held-out
    part."""
    config = groups[0][1].config
    is_text = config.task.is_text
    curves = [
        curve_of(label, group, "held_out" if is_text else "by_loop") for label, group in groups
    ]
    standard = [group.family == "standard" for _, group in groups]
    if is_text:
        longest = max(len(curve.mean) for curve in curves)
        for index, is_standard in enumerate(standard):
            if is_standard:
                # A level beside the loops: no layer but the last was trained to be read.
                curves[index] = _level(curves[index], longest)
    error = error_name(build_task(config))
    panel = by_loop(name, title, error, curves, standard, _last_name(config, error))
    return replace(panel, levels=levels_of(error))


def values_of(groups: Sequence[Labelled], name: str, title: str, key: str, x_label: str) -> Panel:
    """The last query's errors of groups over the values of the setting `key`, a curve for each
    label; of a text the bits per byte after all loops."""
    by_label: dict[str, dict[float, Group[EvaluatedRun]]] = {}
    for label, group in groups:
        value = float(setting_of(group.config, key))
        by_label.setdefault(label, {})[value] = group
    values = sorted({value for by_value in by_label.values() for value in by_value})
    curves = []
    for label, by_value in by_label.items():
        # Not every label has been measured at every value.
        points = np.full((len(values), 3), np.nan)  # mean, low and high at each value
        for index, value in enumerate(values):
            if value in by_value:
                points[index] = interval_over_seeds([_last_errors(by_value[value])], log=True)
        # The curve has the look of its first group.
        first = next(iter(by_value.values()))
        curves.append(_curve(label, first, Interval(*points.T)))
    config = groups[0][1].config
    error = error_name(build_task(config))
    axes = (x_label, _last_name(config, error))
    panel = errors_panel(name, title, error, axes, values, curves, levels_of(error))
    if 0 < _WIDE * values[0] <= values[-1]:  # all above 0, over about a decade
        return replace(panel, log=f"{panel.log}x")
    return panel


def curve_of(label: str, group: Group[EvaluatedRun], name: str) -> Curve:
    """A group's errors of this name, [seeds, prompts, x], as a curve with its band over seeds and
    prompts."""
    return _curve(label, group, interval_over_seeds([group.errors(name)], log=True))


def _curve(label: str, group: Group[EvaluatedRun], interval: Interval) -> Curve:
    """A curve in the label's own style where it has one (recipes, residual scalings), else in that
    of its model."""
    model = group.config.model
    kind = label if label in STYLES else model.connectivity or model.family
    b = None if model.family == "standard" else group.b
    return Curve.of(label, kind, interval, b=b)


def _level(curve: Curve, length: int) -> Curve:
    """The last value of a curve, so many times."""
    mean = [curve.mean[-1]] * length
    low = [curve.low[-1]] * length
    high = [curve.high[-1]] * length
    return replace(curve, mean=mean, low=low, high=high)


def _last_name(config: Config, error: str) -> str:
    """The name of `_last_errors`, for an axis."""
    return "bits per byte" if config.task.is_text else by_loop_name(error)


def _last_errors(group: Group[EvaluatedRun]) -> Floats:
    """The last query's errors, [seeds, prompts]; of a text the bits per byte of its blocks."""
    if group.config.task.is_text:
        return group.errors("held_out")[..., group.b - 1]
    return group.errors()[..., -1]
