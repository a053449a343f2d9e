"""The change of a new model's output by each optimiser step, by residual scaling and loops."""

from collections.abc import Mapping, Sequence
from typing import Any

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


def _slopes(result: Mapping[str, Any], scaling: str, steps: int) -> Floats:
    """The mean slope over the first steps, [seeds]."""
    return values_of(result["slope"]["raw"][scaling])[:, :steps].mean(1)
