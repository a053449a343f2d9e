"""The runs of the iso-depth experiment: their configurations, and the job of one run.

jobs = [TrainAndMeasure(config) for config in grid(IsoDepthSettings())]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from reloop.conf.schema import (
    Config,
    CurriculumConfig,
    EvaluationConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from reloop.evaluation.bootstrap import numbers
from reloop.evaluation.evaluate_run import evaluate
from reloop.evaluation.results import by_solver
from reloop.training import train
from reloop.training.run_folder.run import RunFolder

from ..scaling_law.runs import Row, row_of
from .settings import IsoDepthSettings

_WARMUP = 100  # steps in which the rate rises; then it falls to zero at the last one
_PROMPTS = 4096  # of the evaluation


def grid(settings: IsoDepthSettings) -> list[Config]:
    """A configuration for each r, width and number of steps, the longest trainings first."""
    axes = product(sorted(settings.steps, reverse=True), settings.widths, settings.r)
    return [_config(settings, steps, width, r) for steps, width, r in axes]


def _config(settings: IsoDepthSettings, steps: int, width: int, r: int) -> Config:
    warmup = min(_WARMUP, steps // 4)
    return Config(
        task=TaskConfig("linear", dims=settings.dims, points=settings.points),
        model=ModelConfig(
            n_layer=settings.depth // r,
            n_embd=width,
            n_head=settings.heads,
            n_positions=settings.points,
            injection="none" if r == 1 else "concat",
            prelude=1,
            coda=1,
        ),
        loops=LoopsConfig(b=r, T=1, grad_loops="all"),
        curriculum=CurriculumConfig(loops=GrowthConfig(start=r)),
        training=TrainingConfig(
            steps=steps,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            warmup=warmup,
            decay=1 - warmup / steps,
            clip=1.0,
        ),
        evaluation=EvaluationConfig(
            prompts=_PROMPTS, batch_size=512, max_loops=r, baselines=("bayes",), resamples=200
        ),
        seed=settings.seed,
        device="cpu",  # models this small are fastest with one core each
        folder=settings.folder,
    )


@dataclass(frozen=True)
class TrainAndMeasure:
    """Train as configured, unless it is trained, and measure the run."""

    config: Config

    @property
    def name(self) -> str:
        """r, width and steps, for messages."""
        config = self.config
        return f"r = {config.loops.b}, {config.model.n_embd} wide, {config.training.steps} steps"

    def __call__(self) -> dict[str, Any]:
        """`row`, the run's row of a scaling table; `bayes`, the mean Bayes error on its prompts;
        `seconds` of training. Raises the errors of `train`."""
        run = train(self.config)
        evaluation = evaluate(run, self.config.evaluation, self.config.device)
        bayes = float(np.mean(numbers(by_solver(evaluation["by_examples"])["bayes"]["mean"])))
        seconds = RunFolder(run.path).status().get("seconds")
        return {"row": row_of(run), "bayes": bayes, "seconds": seconds}

    def describe(self, result: dict[str, Any]) -> str:
        """The loss and the time of training, as a short text."""
        row: Row = result["row"]
        return f"loss {row.loss:.4f}, trained in {result['seconds'] or 0:.0f} s"
