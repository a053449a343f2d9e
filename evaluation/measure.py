"""What a run's model and the solvers beside it do, prompt by prompt; each piece cached."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from torch import Generator

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import EvaluationConfig
from reloop.models import Model
from reloop.tasks import SHIFTS, Prompts, Shifted, Task
from reloop.training.assemble import trained_loops
from reloop.training.device import place_exactly
from reloop.training.run_folder.run import Run
from reloop.training.run_folder.sources import sources_of

from .baselines import SLOW, Solver, optimal, solver_module, solvers
from .bootstrap import Floats
from .cache import Arrays, Cache, digest
from .errors import ErrorSettings, evaluation_prompts, model_errors
from .halting import Halting

_CHOOSING = 256  # prompts on which a solver's setting is chosen, other than those it is judged on
_SOLVED_AT_ONCE = 1024  # prompts; bounds a solver's memory
_SLOWLY = 128  # prompts of those that fit a model to each prefix: what an interruption may cost
# The modules of this room that errors depend on; those of models, tasks and solvers come to these.
_OURS = (
    "reloop.evaluation.errors",
    "reloop.evaluation.halting",
    "reloop.evaluation.measure",
    "reloop.training.objective",
)


class Measure:
    """Everything that is measured of one run under one set of resolved settings."""

    def __init__(self, run: Run, settings: EvaluationConfig, device: str = "auto") -> None:
        self.run, self.settings, self.task = run, settings, run.task
        self.b = trained_loops(run.config)
        assert settings.max_loops is not None
        halting = None
        fixed = self.b
        if settings.loops == "auto":
            assert settings.halt_by is not None
            halting = Halting(settings.halt_on, settings.tolerance, settings.halt_by)
        else:
            assert settings.loops is not None
            fixed = int(settings.loops)
        at = tuple(sorted({self.b, fixed}))
        self.reading = ErrorSettings(at, settings.max_loops, halting)
        self._asked_at = "halted" if halting else f"at_{fixed}"
        self._cache = Cache(run.path / "cache")
        self.weights = weights_digest(run.model)
        self._device = device
        self._placed: Model | None = None
        self.prompts = evaluation_prompts(
            self.task, settings.prompts, run.config.task.points, settings.seed
        )

    def model(self, shifted: Shifted | None = None, name: str = "model") -> Arrays:
        """`model` (read at `evaluation.loops`) and `model_at_b` [P, n], `by_loop`, `state_change`
        and `prediction_change` [P, loops]; `loops_used` [P, n] where they differ by prompt."""
        prompts = shifted.prompts if shifted else self.prompts
        queries = shifted.queries if shifted and shifted.queries is not prompts else None
        reading = self.reading
        content = {
            "sources": self._sources("reloop.models.model"),
            "weights": self.weights,
            "prompts": _digest_of(prompts, queries),
            "reading": asdict(reading),
        }

        def compute(rows: slice) -> Arrays:
            asked = queries[rows] if queries else None
            return model_errors(self._model(), self.task, prompts[rows], reading, asked)

        read = self._cache.rows(name, content, len(prompts), self.settings.batch_size, compute)
        kept = {
            "model": read[self._asked_at],
            "model_at_b": read[f"at_{self.b}"],
            **{name: read[name] for name in ("by_loop", "state_change", "prediction_change")},
        }
        return kept | ({"loops_used": read["loops_used"]} if reading.halting else {})

    def baseline(self, name: str, shifted: Shifted | None = None) -> tuple[str, Floats]:
        """A solver's label and its errors [P, n]. Where it has a setting to choose, that with the
        least mean error on other prompts of the task is taken."""
        choices = _solvers(name, self.task)
        label, solve = next(iter(choices.items()))
        if len(choices) > 1:
            points, seed = self.prompts.xs.shape[1], self.settings.seed + 1
            others = evaluation_prompts(self.task, _CHOOSING, points, seed)
            found = {
                label: self._solve(f"{name}-choice", label, solve, others).mean()
                for label, solve in choices.items()
            }
            label = min(found, key=lambda label: found[label])
            solve = choices[label]
        if shifted:
            return label, self._solve(name, label, solve, shifted.prompts, shifted.queries)
        errors = self._solve(name, label, solve, self.prompts)
        return _told(label, name == optimal(self.task)), errors

    def shifted(self, name: str) -> Shifted:
        """The prompts of one shifted input distribution, of the evaluation's seed."""
        settings = self.settings
        return SHIFTS[name].sample(
            self.task,
            Generator().manual_seed(settings.seed),
            settings.prompts,
            self.prompts.xs.shape[1],
        )

    def _solve(
        self, name: str, label: str, solve: Solver, prompts: Prompts, queries: Prompts | None = None
    ) -> Floats:
        queries = queries or prompts
        asked = None if queries is prompts else queries
        content = {
            "sources": self._sources(solver_module(solve)),
            "label": label,
            "prompts": _digest_of(prompts, asked),
            "task": repr(self.task),
        }

        def compute(rows: slice) -> Arrays:
            return {"errors": _errors_of(solve, self.task, prompts[rows], queries[rows])}

        chunk = _SLOWLY if name in SLOW else _SOLVED_AT_ONCE
        return self._cache.rows(name, content, len(prompts), chunk, compute)["errors"]

    def _sources(self, *modules: str) -> dict[str, str]:
        """The source files that errors depend on, beside those of these modules."""
        return sources_of(type(self.task).__module__, *modules, alone=_OURS)

    def _model(self) -> Model:
        if self._placed is None:
            self._placed = place_exactly(self._device).prepare(self.run.model)
        return self._placed


def evaluation_sources(task: Task, settings: EvaluationConfig) -> dict[str, str]:
    """The source files that the result of an evaluation depends on, with their fingerprints."""
    used = [
        solver_module(solve)
        for name in {*baseline_names(task, settings), reference_line(task)}
        for solve in _solvers(name, task).values()
    ]
    summing = ("reloop.evaluation.summary", "reloop.evaluation.bootstrap")
    shifting = ("reloop.tasks.shift",) if settings.shifts else ()
    followed = ("reloop.models.model", type(task).__module__, *shifting, *used)
    return sources_of(*followed, alone=(*_OURS, *summing))


def _solvers(name: str, task: Task) -> dict[str, Solver]:
    """Those that go by a name; ConfigError where this task has none."""
    try:
        return solvers(name, task)
    except ValueError as error:
        raise ConfigError("evaluation.baselines", f"cannot hold {name}: {error}") from None


def weights_digest(model: Model) -> str:
    """A name for a model's weights."""
    return digest(*(weights for _, weights in sorted(model.state_dict().items())))


def _told(label: str, is_optimal: bool) -> str:
    """A solver's label, with what nobody can beat named as such."""
    return f"{label} (Bayes-optimal)" if is_optimal and "Bayes" not in label else label


def baseline_names(task: Task, settings: EvaluationConfig) -> tuple[str, ...]:
    """The solvers that are asked for: the task's own, unless the settings name others."""
    if settings.baselines is not None:
        return settings.baselines
    best = optimal(task)
    first = (best,) if best and best not in task.baselines else ()
    return (*first, *task.baselines)


def reference_line(task: Task) -> str:
    """The solver shown beside a model on shifted inputs, where its own optimum may not hold."""
    return "least_squares" if "least_squares" in task.baselines else task.baselines[0]


def shift_names(settings: EvaluationConfig) -> tuple[str, ...]:
    """The shifted inputs that are asked for."""
    return tuple(SHIFTS) if "all" in settings.shifts else tuple(settings.shifts)


def _digest_of(prompts: Prompts, queries: Prompts | None) -> str:
    more = (queries.xs, queries.ys) if queries else ()
    return digest(prompts.xs, prompts.ys, *more)


def _errors_of(solve: Solver, task: Task, prompts: Prompts, queries: Prompts) -> Floats:
    """A solver's errors [B, n] at each query, from the pairs before it."""
    (xs, ys), (asked, wanted) = _float64(prompts), _float64(queries)
    if not task.classes:
        return np.square(solve(xs, ys, asked) - wanted) / task.divisor
    answers = solve(xs, np.where(ys > 0, 1.0, -1.0), asked)
    return ((answers > 0) != (wanted > 0)).astype(np.float64)


def _float64(prompts: Prompts) -> tuple[Floats, Floats]:
    return prompts.xs.double().numpy(), prompts.ys.double().numpy()
