"""From errors prompt by prompt to an evaluation, its means with intervals; and what its numbers are
called."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from looplab.conf.schema import EvaluationConfig, ModelConfig
from looplab.tasks import Task
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import Run

from .baselines import optimal
from .bootstrap import Band, Floating, bootstrap, over, resampled_means
from .errors import halted_at
from .evaluation import (
    AboveOptimal,
    ByExamples,
    ByLoop,
    EarlyExit,
    Evaluation,
    HaltingSavings,
    NearLeast,
    OfTask,
    ShiftErrors,
)
from .kept import Arrays
from .published import published

NATS = "nats a token"  # the error of a text's task
ERROR_RATE = "error rate"
SQUARED_ERROR = "squared error over the variance of y"
# On shifted inputs, where y may have another variance.
IN_TRAINING = f"{SQUARED_ERROR} in training"
ON_THESE_INPUTS = f"{SQUARED_ERROR} on these inputs"
_NORMALISED = {"scale": ", prompts scaled", "whiten": ", prompts whitened"}
ZERO = "predicting zero"  # the level of a model that knows nothing
TOLERANCES = tuple(np.logspace(-4, 0, 17).tolist())
_LOOPS_USED = "loops_used"  # which are no errors
_NEAR = 1.05  # times the least error by loop: an error up to this is near it


def error_name(task: Task) -> str:
    """The name of this task's error, for an axis."""
    if task.loss == "next_token":
        return NATS
    return SQUARED_ERROR if task.loss == "squared_error" else ERROR_RATE


def levels_of(error: str) -> dict[str, float]:
    """The error of a model that knows nothing, by what the errors are, as levels of a panel."""
    if error == ERROR_RATE:
        return {"guessing": 0.5}
    return {} if error == NATS else {ZERO: 1.0}


def unit_of_shifts(error: str) -> str:
    """The name of errors on shifted inputs, by what the errors are."""
    return IN_TRAINING if error == SQUARED_ERROR else error


def normalised_words(result: OfTask) -> str:
    """', prompts scaled': how the model of an evaluation or a comparison reads prompts; empty for
    as they are."""
    return _NORMALISED.get(result.normalise, "")


def in_own_unit(shift: ShiftErrors) -> ShiftErrors:
    """Its errors over the variance of y on these inputs: over that of predicting zero."""
    bands = dict(shift.bands)
    for name in bands.keys() - {_LOOPS_USED}:
        bands[name] = over(bands[name], shift.zero)
    return replace(shift, bands=bands, by_loop=over(shift.by_loop, shift.zero), zero=1.0)


def examples_name(error: str) -> str:
    """The name of the axis of errors by examples, by what the errors are."""
    return "tokens before" if error == NATS else "examples in the prompt"


def of_loops(error: str) -> str:
    """A sentence that says what errors by loop are."""
    return "the mean error of all tokens" if error == NATS else "the last query's error"


def by_loop_name(error: str, k: int | None = None) -> str:
    """The name of errors by loop: those of the last query, after `k` examples; of a text those of
    all tokens."""
    if error == NATS:
        return f"{error}, mean"
    which = "of the last query" if k is None else f"after {k} examples"
    if error == SQUARED_ERROR:
        return f"squared error {which}, over the variance of y"
    return f"{error} {which}"


def unit(family: str) -> str:
    """The name of what the model runs one after another: "layer" or "loop"."""
    return "layer" if family == "standard" else "loop"


def kind_of(model: ModelConfig) -> str:
    """The kind of a model's curve: its way to loop where that has a name of its own, else its
    family."""
    if model.family != "looped":
        return model.family
    if model.connectivity is not None:
        return model.connectivity
    if model.lanes:
        return "lanes"
    if model.prelude or model.coda:
        return "recurrent"
    return "unnormed" if model.norm == "at_readout" else "looped"


def intervals_by(settings: EvaluationConfig) -> Callable[[Floating], Band]:
    """A function to means with intervals, by an evaluation's settings."""
    return lambda values: bootstrap(values, settings.resamples, settings.seed).to_json()


def summary(
    run: Run, settings: EvaluationConfig, arrays: Arrays, labels: Mapping[str, str]
) -> Evaluation:
    """An evaluation by resolved settings, without its shifted inputs and a text's own scores;
    `labels` are those of its solvers."""
    assert settings.loops is not None  # resolved
    config = run.config
    printed = published(config)
    comparable = []
    for entry in printed:
        # Not a model at other loops, nor a solver with another choice of its setting.
        loops = entry.get("loops", settings.loops)
        label = labels.get(entry["name"], entry["label"])
        # Ours may go on, as in "least squares (Bayes-optimal)".
        if loops == settings.loops and label.startswith(entry["label"]):
            comparable.append(entry)
    b = trained_loops(config)
    return Evaluation(
        task=config.task.name,
        family=config.model.family,
        style=kind_of(config.model),
        dims=config.task.dims,
        divisor=run.task.divisor,
        error=error_name(run.task),
        loops=settings.loops,
        b=b,
        step=run.step,
        prompts=settings.prompts,
        seed=settings.seed,
        normalise=settings.normalise,
        labels=labels,
        by_examples=by_examples(settings, arrays, labels),
        by_loop=_by_loop(settings, arrays),
        above_optimal=_above_optimal(run.task, settings, arrays),
        halting=_halting(arrays, settings, settings.halt_by or b),
        shifts={},
        published=comparable,
        published_loops=sorted({entry["loops"] for entry in printed if "loops" in entry}),
        record={},
    )


def _by_loop(settings: EvaluationConfig, arrays: Arrays) -> ByLoop:
    intervals = intervals_by(settings)
    errors = arrays["by_loop"]
    return ByLoop(
        loop=list(range(1, errors.shape[1] + 1)),
        model=intervals(errors),
        state_change=intervals(arrays["state_change"]),
        prediction_change=intervals(arrays["prediction_change"]),
        near_least=near_least(errors, settings),
    )


def _above_optimal(task: Task, settings: EvaluationConfig, arrays: Arrays) -> AboveOptimal | None:
    """The model's errors less those of the task's optimum; None where that was not measured."""
    best = optimal(task)
    if best not in arrays:
        return None
    intervals = intervals_by(settings)
    bands = {name: intervals(arrays[name] - arrays[best]) for name in ("model", "model_at_b")}
    return AboveOptimal(over=best, bands=bands)


def by_examples(settings: EvaluationConfig, arrays: Arrays, solvers: Collection[str]) -> ByExamples:
    """The errors by number of examples, of the model and of each solver by name."""
    names = ["model", "model_at_b", *solvers]
    if _LOOPS_USED in arrays:
        names.append(_LOOPS_USED)
    intervals = intervals_by(settings)
    k = list(range(arrays["model"].shape[1]))
    return ByExamples(k=k, bands={name: intervals(arrays[name]) for name in names})


def near_least(by_loop: Floating, settings: EvaluationConfig) -> NearLeast:
    """The first loop whose mean error is within 5 % of the least over all loops at which it is a
    number. It has a 90 % interval over resamples of the prompts."""

    def first(means: Floating) -> NDArray[np.intp]:
        least = np.fmin.reduce(means, axis=-1, keepdims=True)  # without those that are nan
        # argmax of truth values is the first true one; loops count from 1.
        return (means <= _NEAR * least).argmax(-1) + 1

    # Of each resample the first loop, [resamples]; whole numbers, so no end between two of them.
    loops = first(resampled_means(by_loop, settings.resamples, settings.seed))
    low, high = np.percentile(loops, (5, 95), method="nearest")
    loop = int(first(by_loop.mean(0, dtype=np.float64)))
    return NearLeast(within=_NEAR - 1, loop=loop, low=float(low), high=float(high))


def _halting(arrays: Arrays, settings: EvaluationConfig, latest: int) -> HaltingSavings:
    """Halting on either change at a range of tolerances, and after `latest` loops in any case."""
    intervals = intervals_by(settings)

    def exits(changes: Floating) -> EarlyExit:
        errors = []
        loops = []
        for tolerance in TOLERANCES:
            error, count = halted_at(arrays["by_loop"], changes, tolerance, latest)
            errors.append(error)
            loops.append(count)
        return EarlyExit(
            loops=intervals(np.stack(loops, axis=1)), error=intervals(np.stack(errors, axis=1))
        )

    return HaltingSavings(
        tolerance=list(TOLERANCES),
        state=exits(arrays["state_change"]),
        prediction=exits(arrays["prediction_change"]),
    )
