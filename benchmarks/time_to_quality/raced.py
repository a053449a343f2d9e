"""One training of a race: its error after each part of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from reloop.conf.schema import Config, Shift
from reloop.evaluation.bootstrap import bootstrap
from reloop.evaluation.errors import ErrorSettings, evaluation_prompts, model_errors
from reloop.evaluation.evaluate_run import resolved
from reloop.evaluation.measure import Measure, evaluation_sources
from reloop.evaluation.remarks import some_files
from reloop.training import train
from reloop.training.assemble import build_curriculum, build_task, trained_loops
from reloop.training.device import place_exactly
from reloop.training.run_folder.environment import other_code
from reloop.training.run_folder.files import read_record, write_record
from reloop.training.run_folder.run import Run, RunFolder, run_folder
from reloop.training.run_folder.sources import changed_files

from .flops import Flops

SHIFTS: tuple[Shift, ...] = ("scaled_x_0.333", "scaled_x_2", "skewed_covariance", "random_orthants")
_RESAMPLES = 1000
_KIND = "quality"


@dataclass(frozen=True)
class Point:
    """The error after `step` steps with its 90 % interval, and what training took until then."""

    step: int
    seconds: float
    cpu_seconds: float
    flops: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Raced:
    """A training that is measured as it goes. Its result: `points`, the Points as plain values;
    once it has ended `at_3b` and `shifts`, errors by name; `remarks` on the code it was trained
    by."""

    name: str  # for a user
    config: Config
    target: float
    k: tuple[int, ...]
    measurements: int
    to_end: bool
    shifts: bool
    threads: int

    def __call__(self) -> dict[str, Any]:
        """Train on from where this training stands, until it has reached the target or its end."""
        torch.set_num_threads(self.threads)
        folder, config = run_folder(self.config), self.config
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        found = self._recorded(folder)
        points = [Point(**each) for each in found.get("points", [])]
        while not self._done(points):
            step = points[-1].step if points else 0
            until = next(each for each in self._steps() if each > step)
            said = folder.path.with_suffix(".txt")
            with open(said, "a", encoding="utf-8") as log, redirect_stdout(log):
                run = train(config, until=until)
            points.append(self._measured(run, folder))
            print(f"{self.name}: {self._told(points[-1])}", flush=True)
            found = {"points": [asdict(point) for point in points], "sources": self._sources()}
            if run.step == config.training.steps:
                found |= self._at_the_end(run)
            write_record(folder.path / "quality.json", _KIND, found)
        return found | {"remarks": self._remarks(folder, found.get("sources", {}))}

    def describe(self, result: dict[str, Any]) -> str:
        """When the target was reached, or how near it came."""
        points = [Point(**each) for each in result["points"]]
        last = self._told(points[-1])
        if (first := reached(points, self.target)) is None:
            return f"not reached: {last}"
        return f"reached after {first.step:,} steps, {first.cpu_seconds:.0f} CPU s; last {last}"

    def _told(self, point: Point) -> str:
        return (
            f"error {point.error:.4f} ({point.low:.4f} to {point.high:.4f}) after {point.step:,} "
            f"of {self.config.training.steps:,} steps, {point.cpu_seconds:.0f} CPU s"
        )

    def _remarks(self, folder: RunFolder, sources: Mapping[str, str]) -> list[str]:
        """By which files the code that trained or measured differs from today's."""
        trained = other_code(folder.made_with(), self.config)
        measured = changed_files(sources, self._sources())
        told = {"trained": trained, "measured": measured}
        return [
            f"{how} by other code: {some_files(files)} changed since"
            for how, files in told.items()
            if files
        ]

    def _sources(self) -> dict[str, str]:
        """The source files that measurements depend on."""
        return evaluation_sources(build_task(self.config), self.config.evaluation)

    def _steps(self) -> list[int]:
        """After which steps it is measured."""
        steps = self.config.training.steps
        return sorted(
            {-(-steps * part // self.measurements) for part in range(1, self.measurements + 1)}
        )

    def _done(self, points: list[Point]) -> bool:
        if not points:
            return False
        ended = points[-1].step >= self.config.training.steps
        return ended or (not self.to_end and reached(points, self.target) is not None)

    def _recorded(self, folder: RunFolder) -> dict[str, Any]:
        """What was measured before, as long as there is a training that it is of."""
        found = read_record(folder.path / "quality.json", _KIND)
        if found.problem:
            print(
                f"{folder.path / 'quality.json'} {found.problem}; measured on from here", flush=True
            )
        standing = folder.status()["step"]
        content = dict(found.content or {})
        points = [point for point in content.get("points", []) if point["step"] <= standing]
        return content | {"points": points} if points else {}

    def _measured(self, run: Run, folder: RunFolder) -> Point:
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
        asked = run.config.evaluation
        prompts = evaluation_prompts(run.task, asked.prompts, run.config.task.points, asked.seed)
        model = place_exactly(run.config.device).prepare(run.model)
        reading = ErrorSettings((loops,), loops)
        batches = [
            prompts[i : i + asked.batch_size] for i in range(0, len(prompts), asked.batch_size)
        ]
        read = [model_errors(model, run.task, batch, reading)[f"at_{loops}"] for batch in batches]
        return np.concatenate(read)[:, list(self.k)].mean(1, dtype=np.float64)

    def _at_the_end(self, run: Run) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if run.config.model.family != "standard":
            found["at_3b"] = float(self._errors(run, 3 * trained_loops(run.config)).mean())
        if self.shifts and run.task.loss == "squared_error":
            b = trained_loops(run.config)
            asked = replace(run.config.evaluation, loops=None, max_loops=b, shifts=SHIFTS)
            measure = Measure(run, resolved(run, asked), run.config.device)
            found["shifts"] = {
                name: float(
                    measure.model(measure.shifted(name), name)["model_at_b"][:, list(self.k)].mean()
                )
                for name in SHIFTS
            }
        return found


def reached(points: list[Point], target: float) -> Point | None:
    """The first measurement whose whole interval is at or under the target."""
    return next((point for point in points if point.high <= target), None)
