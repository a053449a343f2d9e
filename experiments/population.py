"""Populations of small runs as jobs: each is trained in one computation and resumes from its saved
runs; finished results are cached.

population = Population("sqrt, R = 4", config, rates, seeds)
(errors,) = measured([population], 2, folder / "logs")
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.kept import kept
from looplab.models import Model
from looplab.training import Run, train_together
from looplab.training.assemble import build_model, build_task
from looplab.training.jobs import Workers, run_jobs
from looplab.training.objective import loss
from looplab.training.run_folder.environment import other_code, training_sources
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import run_folder
from looplab.training.run_folder.sources import sources_of


class Errors(TypedDict):
    """Squared errors over that of predicting zero [rates][seeds], after training (None for a run
    that diverged) and before."""

    errors: list[list[float | None]]
    initial: list[list[float]]


@dataclass(frozen=True)
class Population:
    """Runs that differ only in learning rate and seed, each in its own run folder under
    `config.folder`, measured on the prompts of `config.evaluation`."""

    name: str  # for messages; no result depends on it
    config: Config
    rates: tuple[float, ...]
    seeds: tuple[int, ...]

    @property
    def configs(self) -> list[Config]:
        """The configuration of each run, rate by rate."""
        return [
            replace(
                self.config, seed=seed, training=replace(self.config.training, learning_rate=rate)
            )
            for rate in self.rates
            for seed in self.seeds
        ]

    def __call__(self) -> Errors:
        """Train what is not trained yet by the current code, and measure.

        Raises HeldElsewhere if another process is training it; Interrupted at Ctrl-C or SIGTERM
        (everything is saved)."""
        folder = Path(self.config.folder) / "populations"

        def compute() -> tuple[Errors, None]:
            folder.mkdir(parents=True, exist_ok=True)
            text = folder / f"{key_of(self._request())}.txt"
            with open(text, "a", encoding="utf-8") as log, redirect_stdout(log):
                runs = self._train()
            initial_models = [build_model(config, build_task(config)) for config in self.configs]
            models = [run.model if isinstance(run, Run) else None for run in runs]
            final_errors = [
                [error if math.isfinite(error) else None for error in row]
                for row in self._errors(models)
            ]
            return Errors(errors=final_errors, initial=self._errors(initial_models)), None

        result = kept(folder, "errors", self._request(), compute)
        return cast(Errors, {name: result[name] for name in Errors.__annotations__})

    def describe(self, result: Errors) -> str:
        """The least error, as a short text."""
        errors = [error for row in result["errors"] for error in row if error is not None]
        return f"least error {min(errors):.3f}" if errors else "every run diverged"

    def curve(self, name: str) -> NDArray[np.float64]:
        """The metric of this name in metrics.jsonl at each step of the trained runs, [steps, rates,
        seeds]; NaN after a run diverged. Needs training.log_every=1."""
        curves = np.full((self.config.training.steps, len(self.configs)), math.nan)
        for index, config in enumerate(self.configs):
            folder = run_folder(config)
            for record in Metrics(folder.metrics).read()[0]:
                curves[record["step"] - 1, index] = record[name]
        return curves.reshape(-1, len(self.rates), len(self.seeds))

    def _train(self) -> list[Run | RunError]:
        for config in self.configs:
            folder = run_folder(config)
            if other_code(folder.made_with(), config) and (backup := folder.set_aside()):
                print(f"{folder.path}: trained again by today's code; before: {backup}", flush=True)
        return train_together(self.configs)

    def _errors(self, models: Sequence[Model | None]) -> list[list[float]]:
        """The errors of a model for each of `configs`, NaN for None: [rates][seeds]."""
        evaluation, task = self.config.evaluation, build_task(self.config)
        prompts = evaluation_prompts(
            task, evaluation.prompts, self.config.task.points, evaluation.seed
        )
        errors = [math.nan] * len(models)
        with torch.no_grad():
            for index, model in enumerate(models):
                if model is not None:
                    predictions = model(prompts, self.config.loops.b)
                    errors[index] = loss(task.loss, predictions, prompts.ys).item() / task.divisor
        columns = len(self.seeds)
        return [errors[i * columns : (i + 1) * columns] for i in range(len(self.rates))]

    def _request(self) -> dict[str, Any]:
        """The key of the errors: the runs, the prompts and the code that they depend on."""
        return {
            "runs": [run_folder(config).path.name for config in self.configs],
            "prompts": self.config.evaluation.prompts,
            "seed": self.config.evaluation.seed,
            "sources": training_sources(self.config) | sources_of("evaluation", "experiments"),
        }


def measured(populations: Sequence[Population], processes: int, logs: Path) -> list[Errors]:
    """The errors of each population, in this order, computed in `processes` processes at a time,
    the longest trainings first; their output goes into `logs`.

    Raises RunError if any of them failed.
    """

    def work(index: int) -> int:
        """Of one step, in blocks per prompt."""
        config, runs = populations[index].config, len(populations[index].configs)
        return config.loops.b * config.model.n_layer * (2 + runs)

    order = sorted(range(len(populations)), key=work, reverse=True)
    jobs = [populations[i] for i in order]
    outcomes = run_jobs(jobs, Workers(processes, logs))
    failures = [
        f"{job.name}: {outcome.failure}"
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.failure
    ]
    if failures:
        raise RunError("; ".join(failures))
    results = dict(zip(order, (outcome.result for outcome in outcomes), strict=True))
    return [results[i] for i in range(len(populations))]
