"""The change of a new model's output by each optimiser step, by residual scaling and loops."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.statistics import Estimate, over_seeds
from looplab.show.panel import Panel
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .near_init import changes, changes_panels, near_of, sized, values_of


def measure(runs: Sequence[Run], settings: EvaluationConfig, **near: Any) -> dict[str, Any]:
    """The changes of new models; it needs no runs. `near` are fields of `Near`."""
    return changes(near_of(near))


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The panels of what `measure` found."""
    return changes_panels(found)


def slope(evidence: Evidence, scaling: str, steps: int) -> Estimate:
    """The slope of log change of the output before the final norm over log R, the mean over the
    first steps."""
    result = evidence.result("update_changes")
    return sized(over_seeds(_slopes(result, scaling, steps)), result, steps)


def slope_difference(evidence: Evidence, scaling: str, less: str, steps: int) -> Estimate:
    """The slope of a scaling less that of another."""
    result = evidence.result("update_changes")
    differences = _slopes(result, scaling, steps) - _slopes(result, less, steps)
    return sized(over_seeds(differences), result, steps)


def slope_distance(evidence: Evidence, scaling: str, power: float, steps: int) -> Estimate:
    """The distance of the slope from a power of R, of the step at which it is largest."""
    result = evidence.result("update_changes")
    by_step = values_of(result["slope"]["raw"][scaling])[:, :steps]
    farthest = np.abs(by_step - power).max(1)
    return sized(over_seeds(farthest), result, steps)


def change_spread(evidence: Evidence, scaling: str) -> Estimate:
    """The largest change by the first step over the smallest, of all numbers of loops."""
    result = evidence.result("update_changes")
    changes = _first_changes(result, scaling)
    return sized(over_seeds(changes.max(1) / changes.min(1), log=True), result, 1)


def early_rise(evidence: Evidence, scaling: str) -> Estimate:
    """The rise of the logarithm of the first step's change over the lower half of the octaves of
    loops."""
    result = evidence.result("update_changes")
    early, _ = _rises(result, scaling)
    return sized(over_seeds(early), result, 1)


def early_rise_less_late(evidence: Evidence, scaling: str) -> Estimate:
    """The rise of the logarithm of the first step's change over the lower half of the octaves of
    loops less that over the upper half."""
    result = evidence.result("update_changes")
    early, late = _rises(result, scaling)
    return sized(over_seeds(early - late), result, 1)


def _rises(result: Mapping[str, Any], scaling: str) -> tuple[Floats, Floats]:
    """The rise over each half of the octaves, [seeds]; between two numbers of loops the logarithm
    is taken to be straight over octaves."""
    logs = np.log(_first_changes(result, scaling))
    octaves = np.log2(result["loops"])
    middle = (octaves[0] + octaves[-1]) / 2
    at_middle = np.array([np.interp(middle, octaves, row) for row in logs])
    return at_middle - logs[:, 0], logs[:, -1] - at_middle


def _first_changes(result: Mapping[str, Any], scaling: str) -> Floats:
    """The change of the output before the final norm by the first step, [seeds, loops]."""
    return values_of(result["change"]["raw"][scaling])[:, :, 0]


def _slopes(result: Mapping[str, Any], scaling: str, steps: int) -> Floats:
    """The mean slope over the first steps, [seeds]."""
    return values_of(result["slope"]["raw"][scaling])[:, :steps].mean(1)
