"""A job: train runs, of one shape where they are several, and evaluate each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from reloop.conf.checks.language import is_text
from reloop.conf.mistakes import HeldElsewhere, RunError, RunsFailed
from reloop.conf.schema import Config, EvaluationConfig
from reloop.evaluation import evaluate, load_run
from reloop.evaluation.evaluate_run import stored
from reloop.evaluation.report import report
from reloop.experiments.runs.one_number import one_number
from reloop.training import Run, train_together
from reloop.training.run_folder.run import run_folder

from .state import progress, shipped_as


@dataclass(frozen=True)
class Wanted:
    """A run that is to be trained and evaluated; `name` is for messages."""

    name: str
    config: Config
    evaluations: tuple[EvaluationConfig, ...]

    @property
    def path(self) -> Path:
        """Its run folder."""
        return run_folder(self.config).path

    def with_those_of(self, other: Wanted) -> Wanted:
        """Itself with the evaluations and the snapshots of another one as well."""
        steps = {*self.config.training.snapshots, *other.config.training.snapshots}
        training = replace(self.config.training, snapshots=tuple(sorted(steps)))
        evaluations = dict.fromkeys((*self.evaluations, *other.evaluations))
        return Wanted(self.name, replace(self.config, training=training), tuple(evaluations))


@dataclass(frozen=True)
class TrainAndEvaluate:
    """Train runs together, unless they are finished, and evaluate each as it is asked for.

    `shipped`: a model that ships stands for a run of its settings. `again_before`: a run that
    finished before this time, in seconds since 1970, is trained again. `tables`: the format in
    which each evaluation is printed, if it is."""

    name: str
    runs: tuple[Wanted, ...]
    shipped: bool = False
    again_before: float | None = None
    tables: Literal["", "text", "markdown", "latex", "csv"] = ""

    def __call__(self) -> list[float]:
        """The error of each run's last query at b loops, by its last evaluation; of a text the bits
        per byte of its held-out part. Raises RunsFailed
        where a run failed, after the others, HeldElsewhere where another process has one."""
        if self.tables:
            print(f"\n{self.name}", flush=True)
        errors, failures = [], {}
        held: HeldElsewhere | None = None
        for wanted, run in zip(self.runs, self._trained(), strict=True):
            if isinstance(run, HeldElsewhere):
                held = run
            elif isinstance(run, RunError):
                failures[str(wanted.path)] = str(run)
            else:
                errors.append(self._evaluated(wanted, run))
        if held:
            raise held
        if failures:
            raise RunsFailed(failures)
        return errors

    def describe(self, result: Sequence[float]) -> str:
        """Done, and the errors."""
        errors = ", ".join(f"{error:.4g}" for error in result)
        what = "bits per byte" if is_text(self.runs[0].config.task) else "error of the last query"
        return f"done, {what} {errors}" if errors else "done by another process"

    def _trained(self) -> list[Run | RunError]:
        """Each run, or why there is none."""
        found: dict[Path, Run | RunError] = {}
        ready = [each for each in self.runs if self.shipped and _is_shipped(each.config)]
        found |= {each.path: load_run(shipped_as(each.config)) for each in ready}
        for again in (False, True):
            part = [
                each
                for each in self.runs
                if each.path not in found and (again or not self._is_old(each))
            ]
            runs = _train([each.config for each in part], again) if part else []
            found |= {each.path: run for each, run in zip(part, runs, strict=True)}
        return [found[each.path] for each in self.runs]

    def _is_old(self, wanted: Wanted) -> bool:
        """Whether a run is to be trained again: one that was finished since is not."""
        if self.again_before is None:
            return False
        try:
            written = (wanted.path / "status.json").stat().st_mtime
        except OSError:
            return False
        finished = progress(wanted.config, shipped=False).state == "finished"
        return not (finished and written >= self.again_before)

    def _evaluated(self, wanted: Wanted, run: Run) -> float:
        """Evaluate a run in every way that is asked for; the last error."""
        error = 0.0
        for settings in wanted.evaluations:
            result = None if self.tables else stored(run, settings)
            result = result or evaluate(run, settings, wanted.config.device, wanted.config.figures)
            error = one_number(result) or error
            if self.tables:
                print(f"\n{report(result, self.tables)}\n", flush=True)
                print(f"{run.path}: evaluation.json, figures/", flush=True)
        return error


def _is_shipped(config: Config) -> bool:
    """Whether a model that ships stands for this run."""
    return progress(config).path.startswith("shipped/")


def _train(configs: Sequence[Config], again: bool) -> list[Run | RunError]:
    """Train runs together, or, where other processes have some of them, the others one by one."""
    try:
        return train_together(configs, again)
    except HeldElsewhere:
        if len(configs) == 1:
            raise
    found: list[Run | RunError] = []
    for config in configs:
        try:
            found += train_together([config], again)
        except RunError as error:  # HeldElsewhere among them
            found.append(error)
    return found
