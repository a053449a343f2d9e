"""The runs of the iso-depth experiment: their configurations, and the job of one run.

jobs = [TrainAndMeasure(config) for config in grid(IsoDepthSettings())]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from reloop.conf.schema import Config
from reloop.evaluation.evaluate_run import evaluate
from reloop.training import train
from reloop.training.run_folder.run import RunFolder

from ..scaling_law.runs import Row, row_of
from .settings import IsoDepthSettings


def grid(settings: IsoDepthSettings) -> list[Config]:
    """A configuration for each r, width and number of steps, the longest trainings first."""
    axes = product(sorted(settings.steps, reverse=True), settings.widths, settings.r)
    return [settings.config(steps, width, r) for steps, width, r in axes]


class Measured(NamedTuple):
    """The run's row of a scaling table, the mean Bayes error on its prompts, and the seconds of
    training, None where they are not known."""

    row: Row
    bayes: float
    seconds: float | None


@dataclass(frozen=True)
class TrainAndMeasure:
    """Train as configured, unless it is trained, and measure the run."""

    config: Config

    @property
    def name(self) -> str:
        """r, width and steps, for messages."""
        config = self.config
        return f"r = {config.loops.b}, {config.model.n_embd} wide, {config.training.steps} steps"

    def __call__(self) -> Measured:
        """Raises the errors of `train`."""
        run = train(self.config)
        evaluation = evaluate(run, self.config.evaluation, self.config.device)
        bayes = float(np.mean(evaluation["by_examples"]["bayes"]["mean"]))
        return Measured(row_of(run), bayes, RunFolder(run.path).status().get("seconds"))

    def describe(self, result: Measured) -> str:
        """The loss and the time of training, as a short text."""
        return f"loss {result.row.loss:.4f}, trained in {result.seconds or 0:.0f} s"
