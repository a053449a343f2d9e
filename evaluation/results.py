"""The results of this room as plain values: the content of its JSON files, which texts and pictures
read."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict, cast

from looplab.conf.schema import Baseline, Shift

from .bootstrap import Band
from .published import Published
from .text.results import LanguageResult

NATS = "nats a token"  # the error of a text's task


def examples_name(error: str) -> str:
    """The name of the axis of errors by examples, by what the errors are."""
    return "tokens before" if error == NATS else "in-context examples k"


def of_loops(error: str) -> str:
    """What errors by loop are, in a sentence."""
    return "the mean error of all tokens" if error == NATS else "the last query's error"


def by_loop_name(error: str, k: int) -> str:
    """What errors by loop are: those of the last query, after `k` examples; of a text those of all
    tokens."""
    return f"{error}, mean" if error == NATS else f"{error} at k = {k}"


class OfTask(TypedDict):
    """The task of a result, and the remarks on its runs."""

    task: str
    dims: int
    remarks: NotRequired[list[str]]


class OfRun(OfTask):
    """One run's result: its task, family and b (of a standard model, its layers); `style` is the
    kind of its curves (`style.kind_of`)."""

    family: str
    b: int
    style: str


class ModelErrors(TypedDict):
    """The model's errors at the evaluation's loops, and at b loops. The solvers' curves are beside
    these keys (`by_solver`)."""

    model: Band
    model_at_b: Band


class ByExamples(ModelErrors):
    """Errors by number of examples k, and the mean number of loops used with a halting rule."""

    k: list[int]
    loops_used: NotRequired[Band]


class AboveOptimal(ModelErrors):
    """The model's errors less those of the solver `over`, paired by prompt."""

    over: str


class ShiftResult(ByExamples):
    """Errors on one kind of shifted inputs; `zero` is the error of predicting zero."""

    label: str
    zero: float
    labels: dict[str, str]  # of its solvers
    by_loop: Band


class NearLeast(TypedDict):
    """The first loop with an error at most 1 + `within` times the least, and its 90 % interval."""

    within: float
    loop: int
    low: float
    high: float


class ByLoop(TypedDict):
    """The last query's error, and the changes of its state and prediction over each loop."""

    loop: list[int]
    model: Band
    state_change: Band
    prediction_change: Band
    near_least: NearLeast


class Halted(TypedDict):
    """Mean number of loops used and the last query's error, by tolerance."""

    loops: Band
    error: Band


class HaltingResult(TypedDict):
    """Halting on either change, at a range of tolerances."""

    tolerance: list[float]
    state: Halted
    prediction: Halted


class Summary(OfRun):
    """What one evaluation finds. `labels` are those of the solvers, by name."""

    divisor: float
    error: str
    loops: int | Literal["auto"]
    prompts: int
    seed: int
    labels: dict[str, str]
    by_examples: ByExamples
    by_loop: ByLoop
    halting: HaltingResult
    shifts: dict[str, ShiftResult]
    above_optimal: NotRequired[AboveOptimal]
    language: NotRequired[LanguageResult]
    published: list[Published]
    published_loops: list[int]


class Settings(TypedDict):
    """The settings of an evaluation (`EvaluationConfig`) that are read again."""

    prompts: int
    seed: int
    resamples: int
    halt_on: Literal["state", "prediction"]
    tolerance: float
    halt_by: int
    baselines: list[Baseline] | None
    shifts: list[Shift]


class Evaluation(Summary):
    """The content of evaluation.json, and of each file in evaluations/; `command` shows
    it, `others` are those of the run's other evaluations."""

    format: int
    step: int
    weights: str
    settings: Settings
    sources: dict[str, str]
    key: str
    arrays_sha256: NotRequired[str]
    command: str
    others: NotRequired[list[str]]


class Compared(TypedDict):
    """Errors by number of examples, at the largest one, and their mean; of language models also the
    bits per byte of the held-out text."""

    by_examples: Band
    last: Band
    mean_over_k: Band
    bits_per_byte: NotRequired[Band]


class ComparedRun(Compared):
    """One run in a comparison; `minus_first` is paired by prompt, and by block of the text."""

    family: str
    style: str
    seed: int
    b: int
    step: int
    remarks: list[str]
    loops: int | Literal["auto"]
    by_loop: Band
    near_least: NearLeast
    minus_first: Compared


class Comparison(OfTask):
    """The content of comparison.json; `path` is its folder."""

    error: str
    divisor: float
    prompts: int
    seed: int
    k: list[int]
    runs: dict[str, ComparedRun]
    labels: dict[str, str]
    baselines: dict[str, Band]
    path: NotRequired[str]


def by_solver(part: ModelErrors) -> dict[str, Band]:
    """A part of a result as the dictionary that its solvers' curves are in, by name: a TypedDict
    has no room for free names beside its own keys."""
    return cast(dict[str, Band], part)


def unit(family: str) -> str:
    """What the model runs one after another: "layer" or "loop"."""
    return "layer" if family == "standard" else "loop"
