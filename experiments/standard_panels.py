"""The pictures of an experiment as numbers: curves of its runs and of the solvers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.evaluation.bootstrap import Interval, clustered_bootstrap
from looplab.evaluation.panel import Curve, Panel, file_name
from looplab.tasks import SHIFTS
from looplab.training.assemble import trained_loops

from .claims import Measured
from .definition import PanelSpec, setting_of

_RESAMPLES, _SEED = 1000, 2024
_NOTHING = Interval(*(np.array(np.nan) for _ in range(3)))
_BITS = "bits per byte"
_EXAMPLES = ("in-context examples k", "squared error")


def panels(specs: Sequence[PanelSpec], runs: Sequence[Measured]) -> list[Panel]:
    """The panels of all pictures: one for each task among the runs, and for each value of the
    setting that the picture is split by. Runs of one label and panel are seeds of one curve."""
    found = []
    for spec in specs:
        for title, part in _parts(spec, runs).items():
            name = "-".join(filter(None, (spec.kind, file_name(title))))
            found += _KINDS[spec.kind](spec, part, name, title)
    return found


def _parts(spec: PanelSpec, runs: Sequence[Measured]) -> dict[str, list[Measured]]:
    """The runs of each panel, by its title."""
    parts: dict[str, list[Measured]] = {}
    for run in runs:
        task = run.config.task
        title = task.name.replace("_", " ")
        title += "" if task.is_text else f", d = {task.dims}"
        if spec.split:
            title += f", {spec.split} = {setting_of(run.config, spec.split)}"
        parts.setdefault(title, []).append(run)
    return parts


def _by_loop(spec: PanelSpec, runs: Sequence[Measured], name: str, title: str) -> list[Panel]:
    length = max(_by_each_loop(run).shape[1] for run in runs)
    curves = _curves(runs, _by_each_loop, length)
    x = range(1, length + 1)
    return [_errors(name, title, ("loop", _error_name(runs, "last")), x, curves)]


def _by_examples(spec: PanelSpec, runs: Sequence[Measured], name: str, title: str) -> list[Panel]:
    curves = [*_curves(runs, lambda run: run.arrays["model"]), *_solvers(runs[0])]
    return [_errors(name, title, _EXAMPLES, range(runs[0].config.task.points), curves)]


def _by_value(spec: PanelSpec, runs: Sequence[Measured], name: str, title: str) -> list[Panel]:
    """The error over the values of a setting, one curve for each family of models."""
    values = sorted({float(setting_of(run.config, spec.x)) for run in runs})
    curves: list[Curve] = []
    for label in dict.fromkeys(run.label for run in runs):
        points: list[Interval | None] = []
        same = [run for run in runs if run.label == label]
        for value in values:
            part = [run for run in same if float(setting_of(run.config, spec.x)) == value]
            points.append(_interval([_error(run, spec.of) for run in part]) if part else None)
        curves.append(_curve(same[0], points))
    axes = (spec.x, _error_name(runs, spec.of))
    return [_errors(name, title, axes, values, curves, log_x=spec.log_x)]


def _shifts(spec: PanelSpec, runs: Sequence[Measured], name: str, title: str) -> list[Panel]:
    """A panel of errors by examples for each kind of shifted inputs."""
    found = []
    for shift in SHIFTS:
        if not all(f"{shift}/model" in run.arrays for run in runs):
            continue
        errors = partial(_shifted, shift)
        curves = [*_curves(runs, errors), *_solvers(runs[0], shift)]
        ks = range(errors(runs[0]).shape[1])
        label = f"{title}, {SHIFTS[shift].label}"
        found.append(_errors(f"{name}-{shift}", label, _EXAMPLES, ks, curves))
    return found


def _shifted(shift: str, run: Measured) -> NDArray[Any]:
    return run.arrays[f"{shift}/model"]


_KINDS: Mapping[str, Callable[[PanelSpec, Sequence[Measured], str, str], list[Panel]]] = {
    "by_loop": _by_loop,
    "by_examples": _by_examples,
    "by_value": _by_value,
    "shifts": _shifts,
}
_ERROR_NAMES = {"last": "error of the last query", "mean": "mean error over k"}


def _errors(
    name: str,
    title: str,
    axes: tuple[str, str],
    x: Sequence[float],
    curves: Sequence[Curve],
    log_x: bool = False,
) -> Panel:
    """A panel of errors; of bits per byte on a plain axis, where no level is zero's."""
    if axes[1] == _BITS:
        return Panel(name, title, *axes, x, curves, log="x" if log_x else "")
    log, levels = ("xy" if log_x else "y"), {"predicting zero": 1.0}
    return Panel(name, title, *axes, x, curves, log=log, levels=levels)


def _error_name(runs: Sequence[Measured], of: str) -> str:
    return _BITS if all(map(_is_text, runs)) else _ERROR_NAMES[of]


def _is_text(run: Measured) -> bool:
    return run.config.task.is_text


def _by_each_loop(run: Measured) -> NDArray[Any]:
    """The error of the last query by loop, [prompts, loops]; of a text the bits per byte of its
    held-out part, by block."""
    return run.arrays["held_out" if _is_text(run) else "by_loop"]


def _curves(
    runs: Sequence[Measured], errors: Callable[[Measured], NDArray[Any]], length: int = 0
) -> list[Curve]:
    """One curve for each label: means over prompts and seeds."""
    curves = []
    for label in dict.fromkeys(run.label for run in runs):
        same = [run for run in runs if run.label == label]
        shortest = min(errors(run).shape[1] for run in same)
        interval = _interval([errors(run)[:, :shortest] for run in same])
        found = [Interval(*part) for part in zip(*interval, strict=True)]
        curves.append(_curve(same[0], [*found, *[None] * (length - shortest)]))
    return curves


def _curve(run: Measured, points: Sequence[Interval | None]) -> Curve:
    """The curve of a run's label through points, None where there is none."""
    parts = zip(*(point or _NOTHING for point in points), strict=True)
    model = run.config.model
    b = None if model.family == "standard" else trained_loops(run.config)
    kind = model.connectivity or model.family
    return Curve.of(run.label, kind, Interval(*map(np.array, parts)), b=b)


def _solvers(run: Measured, shift: str = "") -> list[Curve]:
    """The solvers' curves beside a run: they are the same beside all runs of a panel."""
    curves: list[Curve] = []
    for name, label in run.labels.get(shift, {}).items():
        values = run.arrays.get(f"{shift}/{name}" if shift else name)
        if values is None:
            continue
        curves.append(Curve.of(label, name, _interval([values]), name=name, solver=True))
    return curves


def _interval(errors: Sequence[NDArray[Any]]) -> Interval:
    """Mean over seeds and prompts of errors [prompts, ...], one of each seed, with a bootstrap over
    both."""
    stacked = np.stack(errors)
    return clustered_bootstrap(stacked, np.ones(stacked.shape[1], int), _RESAMPLES, _SEED)


def _error(run: Measured, of: str) -> NDArray[Any]:
    """The error of each prompt: of the last query, or the mean over all; of a text the bits per
    byte of each block of its held-out part."""
    if _is_text(run):
        return run.arrays["held_out"][:, trained_loops(run.config) - 1]
    errors = run.arrays["model_at_b"]
    return errors[:, -1] if of == "last" else errors.mean(1)
