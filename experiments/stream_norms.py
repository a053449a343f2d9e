"""The norm of the stream in the first steps of training, by residual scaling, of a looped stack and
of layers that share no weights."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.statistics import Estimate, over_seeds
from looplab.show.panel import Panel
from looplab.training.run_folder.run import Run

from .evidence import Evidence
from .near_init import near_of, norms, norms_panels, sized, values_of


def measure(runs: Sequence[Run], settings: EvaluationConfig, **near: Any) -> dict[str, Any]:
    """The norms of new models; it needs no runs. `near` are fields of `Near`."""
    return norms(near_of(near))


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """The panels of what `measure` found."""
    return norms_panels(found)


def norm_ratio(evidence: Evidence, sharing: str, scaling: str) -> Estimate:
    """The norm of the stream after the first steps, from the fewest loops to the most."""
    result = evidence.result("stream_norms")
    norms = values_of(result["norm"][sharing][scaling])[:, :, -1]
    ratios = norms[:, -1] / norms[:, 0]
    return sized(over_seeds(ratios, log=True), result, result["steps"])
