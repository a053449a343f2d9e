"""The cosines between the increments of a new model's loops."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.statistics import Estimate, over_seeds
from looplab.show.panel import Panel
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .near_init import cosines, cosines_panels, near_of, sized, values_of


def measure(runs: Sequence[Run], settings: EvaluationConfig, **near: Any) -> dict[str, Any]:
    """The cosines of new models; it needs no runs. `near` are fields of `Near`."""
    return cosines(near_of(near))


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The panels of what `measure` found."""
    return cosines_panels(found)


def increments_cosine(evidence: Evidence, sharing: str) -> Estimate:
    """The mean cosine of two different increments of a new model."""
    result = evidence.result("increment_cosines")
    return sized(over_seeds(values_of(result["apart"][sharing])), result, 0)
