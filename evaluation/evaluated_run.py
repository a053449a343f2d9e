"""A run with its errors, as experiments, claims and pictures take it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looplab.conf.schema import Config

from .bootstrap import Floats
from .statistics import NotMeasured


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """A run, equal to itself alone: its errors prompt by prompt, on the same prompts for all
    members of an experiment at one scale.

    `arrays` are those of its evaluation: `model_at_b` [prompts, k] at its b loops, `model`
    [prompts, k] at `evaluation.loops`, `by_loop` [prompts, loops] of the last query. So is each
    solver's by its name, [prompts, k], and those on shifted inputs as '<shift>/model_at_b'. All are
    over the task's divisor. `remarks` are what its numbers must be read with, such as that other
    code trained it.
    """

    label: str
    config: Config
    step: int
    arrays: Mapping[str, NDArray[Any]]
    # Of the solvers by name, under "" on the inputs of training and by shift on shifted ones.
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    path: str = ""
    remarks: Sequence[str] = ()
    # The error of predicting zero on each shifted input.
    zero: Mapping[str, float] = field(default_factory=dict)

    def errors(self, name: str = "model_at_b") -> Floats:
        """Return an array, [prompts, …]. Raises NotMeasured if the run lacks it."""
        if name not in self.arrays:
            shift = name.rpartition("/")[0]
            hint = f" on {shift} (evaluation.shifts={shift})" if shift else f": {name}"
            raise NotMeasured(f"{self.label} has no errors{hint}")
        return np.asarray(self.arrays[name], np.float64)
