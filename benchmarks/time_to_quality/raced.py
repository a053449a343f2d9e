"""One training of a race: its error after each part of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict

import numpy as np
import torch

from looplab.conf.schema import Config, Shift
from looplab.evaluation.bootstrap import bootstrap
from looplab.evaluation.errors import ErrorSettings, evaluation_prompts, model_errors
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.measure import Measure, evaluation_sources
from looplab.experiments.one_plan import Flops
from looplab.training import train
from looplab.training.assemble import build_curriculum, build_task, trained_loops
from looplab.training.device import place_exactly
from looplab.training.run_folder.environment import other_code, some_files
from looplab.training.run_folder.files import read_record, write_record
from looplab.training.run_folder.run import Run, RunFolder, run_folder
from looplab.training.run_folder.sources import changed_files

SHIFTS: tuple[Shift, ...] = ("scaled_x_0.333", "scaled_x_2", "skewed_covariance", "random_orthants")
_RESAMPLES = 1000
_KIND = "quality"


@dataclass(frozen=True)
class Point:
    """The error after `step` steps with its 90 % interval, and the cost of training up to it."""

    step: int
    seconds: float
    cpu_seconds: float
    flops: float
    error: float
    low: float
    high: float


class Result(TypedDict, total=False):
    """What is known of a training: the values of its Points, the source files that they depend on,
    after the last step errors, and remarks on the code of training and measurement."""

    points: list[dict[str, Any]]
    sources: dict[str, str]
    at_3b: float
    shifts: dict[str, float]
    remarks: list[str]


@dataclass(frozen=True)
class Raced:
    """A training with measurements in its course."""

    name: str  # for a user
    config: Config
    target: float
    k: tuple[int, ...]
    measurements: int
    to_end: bool
    shifts: bool
    threads: int

    def __call__(self) -> Result:
        """Continue this training until it reaches the target or its last step."""
        torch.set_num_threads(self.threads)
        folder, config = run_folder(self.config), self.config
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        result = self._read_record(folder)
        points = points_of(result)
        while not self._done(points):
            step = points[-1].step if points else 0
            next_step = next(each for each in self._steps() if each > step)
            log_path = folder.path.with_suffix(".txt")
            with open(log_path, "a", encoding="utf-8") as log, redirect_stdout(log):
                run = train(config, until=next_step)
            points.append(self._measure_point(run, folder))
            print(f"{self.name}: {self._describe_point(points[-1])}", flush=True)
            result = {"points": [asdict(point) for point in points], "sources": self._sources()}
            if run.step == config.training.steps:
                result |= self._final_errors(run)
            write_record(folder.path / "quality.json", _KIND, result)
        result["remarks"] = self._remarks(folder, result.get("sources", {}))
        return result

    def describe(self, result: Result) -> str:
        """The step at which the target was reached, if it was, and the last error."""
        points = points_of(result)
        last = self._describe_point(points[-1])
        if (first := reached(points, self.target)) is None:
            return f"not reached: {last}"
        return f"reached after {first.step:,} steps, {first.cpu_seconds:.0f} CPU s; last {last}"

    def _describe_point(self, point: Point) -> str:
        return (
            f"error {point.error:.4f} ({point.low:.4f} to {point.high:.4f}) after {point.step:,} "
            f"of {self.config.training.steps:,} steps, {point.cpu_seconds:.0f} CPU s"
        )

    def _remarks(self, folder: RunFolder, sources: Mapping[str, str]) -> list[str]:
        """The files that changed since the training or its measurements."""
        trained = other_code(folder.made_with(), self.config)
        measured = changed_files(sources, self._sources())
        changes = {"trained": trained, "measured": measured}
        return [
            f"{action} by other code: {some_files(files)} changed since"
            for action, files in changes.items()
            if files
        ]

    def _sources(self) -> dict[str, str]:
        """The source files that measurements depend on."""
        return evaluation_sources(build_task(self.config), self.config.evaluation)

    def _steps(self) -> list[int]:
        """The steps after which it is measured."""
        steps = self.config.training.steps
        return sorted(
            {-(-steps * part // self.measurements) for part in range(1, self.measurements + 1)}
        )

    def _done(self, points: list[Point]) -> bool:
        if not points:
            return False
        at_end = points[-1].step >= self.config.training.steps
        return at_end or (not self.to_end and reached(points, self.target) is not None)

    def _read_record(self, folder: RunFolder) -> Result:
        """The stored measurements up to the step that the training is at."""
        record = read_record(folder.path / "quality.json", _KIND)
        if record.problem:
            print(
                f"{folder.path / 'quality.json'} {record.problem}; measured on from here",
                flush=True,
            )
        current_step = folder.status()["step"]
        content: Any = record.content or {}
        result: Result = content
        points = [point for point in result.get("points", []) if point["step"] <= current_step]
        result["points"] = points
        return result if points else {}

    def _measure_point(self, run: Run, folder: RunFolder) -> Point:
        errors = self._errors(run, trained_loops(run.config))
        interval = bootstrap(errors, _RESAMPLES, seed=0)
        status = folder.status()
        flops = Flops(run.config, run.model, build_curriculum(run.config, run.task))
        return Point(
            step=run.step,
            seconds=float(status["seconds"]),
            cpu_seconds=float(status["cpu_seconds"]),
            flops=flops(run.step),
            error=float(interval.mean),
            low=float(interval.low),
            high=float(interval.high),
        )

    def _errors(self, run: Run, loops: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Each evaluation prompt's error at the last of these loops, averaged over k."""
        evaluation = run.config.evaluation
        prompts = evaluation_prompts(
            run.task, evaluation.prompts, run.config.task.points, evaluation.seed
        )
        model = place_exactly(run.config.device).prepare(run.model)
        error_settings = ErrorSettings((loops,), loops)
        batches = [
            prompts[i : i + evaluation.batch_size]
            for i in range(0, len(prompts), evaluation.batch_size)
        ]
        errors = [
            model_errors(model, run.task, batch, error_settings)[f"at_{loops}"] for batch in batches
        ]
        return np.concatenate(errors)[:, list(self.k)].mean(1, dtype=np.float64)

    def _final_errors(self, run: Run) -> Result:
        result: Result = {}
        if run.config.model.family != "standard":
            result["at_3b"] = float(self._errors(run, 3 * trained_loops(run.config)).mean())
        if self.shifts and run.task.loss == "squared_error":
            b = trained_loops(run.config)
            evaluation = replace(run.config.evaluation, loops=None, max_loops=b, shifts=SHIFTS)
            measure = Measure(run, resolved(run, evaluation), run.config.device)
            result["shifts"] = {
                name: float(
                    measure.model(measure.shifted(name), name)["model_at_b"][:, list(self.k)].mean()
                )
                for name in SHIFTS
            }
        return result


def points_of(result: Result) -> list[Point]:
    """The measurements of a training."""
    return [Point(**values) for values in result.get("points", [])]


def reached(points: list[Point], target: float) -> Point | None:
    """The first measurement whose whole interval is at or below the target."""
    return next((point for point in points if point.high <= target), None)
