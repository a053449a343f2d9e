"""Errors of a run's model and of the solvers, prompt by prompt; each computation is cached."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

import numpy as np
from torch import Generator

from looplab.conf.mistakes import ConfigError
from looplab.conf.plugins import Slip, is_users
from looplab.conf.schema import EvaluationConfig
from looplab.models import Model
from looplab.tasks import SHIFTS, Prompts, Shifted, Task
from looplab.training.assemble import trained_loops
from looplab.training.device import place_exactly
from looplab.training.run_folder.run import Run
from looplab.training.run_folder.sources import measured_by
from looplab.training.validation import evaluation_prompts

from .baselines import SLOW, Solver, optimal, solvers, try_solver
from .bootstrap import Floats
from .errors import ErrorSettings, HaltingRule, model_errors
from .kept import Arrays, RowCache, digest
from .normalise import check_normalise, normalised_errors

_OF_MODEL = (
    "model",
    "model_at_b",
    "by_loop",
    "state_change",
    "prediction_change",
    "loops_used",
)
_CHOICE_PROMPTS = 256  # on which a solver's setting is chosen; not those of the evaluation
_SOLVER_CHUNK = 1024  # prompts; bounds a solver's memory
_SLOW_SOLVER_CHUNK = 128  # prompts; bounds what an interruption of a slow solver costs


class Evaluator:
    """All errors of one run under one set of resolved settings."""

    def __init__(self, run: Run, settings: EvaluationConfig, device: str = "auto") -> None:
        self.run = run
        self.settings = settings
        self.task = run.task
        self._cache = RowCache(run.path / "cache")
        self._device = device
        check_normalise(settings.normalise, run.task)
        points = run.config.task.points
        self.prompts = evaluation_prompts(self.task, settings.prompts, points, settings.seed)

    @cached_property
    def device_model(self) -> Model:
        """The model on the evaluation's device."""
        return place_exactly(self._device).prepare(self.run.model)

    def model(self, shifted: Shifted | None = None, name: str = "model") -> Arrays:
        """`model` (read at `evaluation.loops`) and `model_at_b` [P, n], `by_loop`, `state_change`
        and `prediction_change` [P, loops]; `loops_used` [P, n] with a halting rule."""
        settings = self.settings
        b = trained_loops(self.run.config)
        assert settings.max_loops is not None
        assert settings.loops is not None
        assert settings.halt_by is not None
        loops = {b}  # at which every evaluation reads the model, whatever else is asked for
        halting = None
        if settings.loops == "auto":
            halting = HaltingRule(settings.halt_on, settings.tolerance, settings.halt_by)
        else:
            loops.add(settings.loops)
        reading = ErrorSettings(tuple(sorted(loops)), settings.max_loops, halting)
        given, asked = self._inputs(shifted)
        prompts = digest(given.xs, given.ys, asked.xs, asked.ys)
        # The key of a request without `normalise` is as if there were no such setting.
        content: dict[str, object] = {"prompts": prompts, "reading": asdict(reading)}
        read = model_errors
        if settings.normalise != "none":
            content["normalise"] = settings.normalise
            read = partial(normalised_errors, kind=settings.normalise)

        def compute(rows: slice) -> Arrays:
            # The prompts' own queries are answered in one causal pass, without further tokens.
            queries = None if asked is given else asked[rows]
            return read(self.device_model, self.task, given[rows], reading, queries=queries)

        arrays = self.rows(name, content, len(given), compute)
        arrays["model"] = arrays["halted" if halting else f"at_{settings.loops}"]
        arrays["model_at_b"] = arrays[f"at_{b}"]
        return {name: arrays[name] for name in _OF_MODEL if name in arrays}

    def baseline(self, name: str, shifted: Shifted | None = None) -> tuple[str, Floats]:
        """A solver's label and its errors [P, n]. If it has a setting to choose, the value with the
        least mean error on other prompts of the task is used."""
        choices = named_solvers(name, self.task)
        label = next(iter(choices))
        if len(choices) > 1:
            points = self.prompts.xs.shape[1]
            # Not the evaluation's own prompts, on which the chosen setting would look too good.
            others = evaluation_prompts(self.task, _CHOICE_PROMPTS, points, self.settings.seed + 1)
            mean_errors = {}
            for choice, solve in choices.items():
                errors = self._solve(f"{name}-choice", choice, solve, others, others)
                mean_errors[choice] = errors.mean()
            label = min(mean_errors, key=mean_errors.__getitem__)
        try_solver(choices[label], self.task, self.prompts)
        # The choice is of the inputs of training, also for shifted ones.
        errors = self._solve(name, label, choices[label], *self._inputs(shifted))
        if not shifted and name == optimal(self.task) and "Bayes" not in label:
            label = f"{label} (Bayes-optimal)"
        return label, errors

    def _inputs(self, shifted: Shifted | None) -> tuple[Prompts, Prompts]:
        """The pairs that are given and the queries that are asked, query k after the first k."""
        if shifted:
            return shifted.prompts, shifted.queries
        return self.prompts, self.prompts

    def shifted(self, name: str) -> Shifted:
        """The prompts of one shifted input distribution, drawn with the evaluation's seed."""
        generator = Generator().manual_seed(self.settings.seed)
        points = self.prompts.xs.shape[1]
        return SHIFTS[name].sample(self.task, generator, self.settings.prompts, points)

    def _solve(
        self, name: str, label: str, solve: Solver, given: Prompts, asked: Prompts
    ) -> Floats:
        """A solver's errors [P, n] at the queries asked, from the pairs given before each."""
        content = {
            "sources": measured_by(Evaluator, type(self.task), solve),
            "label": label,
            "prompts": digest(given.xs, given.ys, asked.xs, asked.ys),
            "task": repr(self.task),
            "data": self.task.data.identity(),
        }

        def compute(rows: slice) -> Arrays:
            return {"errors": _errors_of(solve, self.task, given[rows], asked[rows])}

        chunk = _SLOW_SOLVER_CHUNK if name in SLOW else _SOLVER_CHUNK
        return self._cache.rows(name, content, len(given), chunk, compute)["errors"]

    def rows(
        self,
        name: str,
        content: Mapping[str, object],
        total: int,
        compute: Callable[[slice], Arrays],
        *used: Solver,
    ) -> Arrays:
        """Return what `compute` returns for rows of the model's inputs, stored under `content`, the
        model's weights and the code, that of the solvers `used` too."""
        content = dict(content)
        content["sources"] = measured_by(compute, type(self.task), *used)
        content["weights"] = weights_digest(self.run.model)
        return self._cache.rows(name, content, total, self.settings.batch_size, compute)


def called_by_name(task: Task, settings: EvaluationConfig) -> list[Any]:
    """The task's class, and the solvers and the shifts' classes that an evaluation asks for."""
    called: list[Any] = [type(task)]
    for name in {reference_line(task)}.union(baseline_names(task, settings)):
        called += named_solvers(name, task).values()
    called += [type(SHIFTS[name]) for name in shift_names(settings)]
    return called


def named_solvers(name: str, task: Task) -> Mapping[str, Solver]:
    """The solvers of a name, by label; ConfigError if this task has none."""
    try:
        return solvers(name, task)
    except ValueError as error:
        if is_users(type(task)) and name in task.baselines:
            raise Slip(type(task), f"cannot hold {name}: {error}", "baselines") from None
        raise ConfigError("evaluation.baselines", f"cannot hold {name}: {error}") from None


def weights_digest(model: Model) -> str:
    """The sha256 of a model's weights."""
    return digest(*(weights for _, weights in sorted(model.state_dict().items())))


def baseline_names(task: Task, settings: EvaluationConfig) -> tuple[str, ...]:
    """The solvers of an evaluation: the task's, unless the settings name others."""
    if settings.baselines is not None:
        return settings.baselines
    best = optimal(task)
    if best is None or best in task.baselines:
        return tuple(task.baselines)
    return (best, *task.baselines)


def reference_line(task: Task) -> str:
    """The solver beside a model on shifted inputs, where the task's optimum may not hold."""
    return "least_squares" if "least_squares" in task.baselines else task.baselines[0]


def shift_names(settings: EvaluationConfig) -> tuple[str, ...]:
    """The shifted inputs of an evaluation."""
    return tuple(SHIFTS) if "all" in settings.shifts else tuple(settings.shifts)


def _errors_of(solve: Solver, task: Task, prompts: Prompts, queries: Prompts) -> Floats:
    """A solver's errors [B, n] at each query, from the pairs before it; at each token of a text."""
    if task.is_text:
        return solve(task, prompts)
    xs = prompts.xs.double().numpy()
    ys = prompts.ys.double().numpy()
    query_xs = queries.xs.double().numpy()
    query_ys = queries.ys.double().numpy()
    # [B, n, d] and [B, n] each; of two classes, solvers take ±1 for 0 and 1.
    if not task.classes:
        predictions = solve(xs, ys, query_xs)
        return np.square(predictions - query_ys) / task.divisor
    predictions = solve(xs, np.where(ys > 0, 1.0, -1.0), query_xs)
    return ((predictions > 0) != (query_ys > 0)).astype(np.float64)
