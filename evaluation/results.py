"""The content of evaluation.json and comparison.json, and what its numbers are called."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from .text.results import LanguageResult

FORMAT = 4  # of evaluation.json; an older one is computed again

NATS = "nats a token"  # the error of a text's task
ERROR_RATE = "error rate"


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


def unit(family: str) -> str:
    """What the model runs one after another: "layer" or "loop"."""
    return "layer" if family == "standard" else "loop"


class OfRun(TypedDict):
    """One run's result: its task, family and b (of a standard model, its layers); `style` is the
    kind of its curves (`style.kind_of`). The numbers must be read with the remarks."""

    task: str
    dims: int
    remarks: NotRequired[list[str]]
    family: str
    b: int
    style: str


class Evaluation(OfRun):
    """The content of evaluation.json, and of each file in evaluations/. Each curve has lists
    `mean`, `low` and `high` (`Band`).

    `by_examples` has errors by number of examples `k`: of the `model` at the evaluation's loops,
    `model_at_b`, of each solver by name, and the mean `loops_used` with a halting rule.
    `above_optimal` has the model's less those of the solver `over`, paired by prompt. `by_loop` has
    the last query's error of the `model` by `loop`, its `state_change` and `prediction_change`, and
    the first loop that is `near_least`. `halting` has for either change the mean number of `loops`
    and the `error` by `tolerance`. Each of `shifts` is as `by_examples`, with a `label`, the error
    of predicting `zero`, the `labels` of its solvers and the errors `by_loop`.

    `labels` are those of the solvers; `command` shows the result, `others` are those of the run's
    other evaluations.
    """

    divisor: float
    error: str
    loops: int | Literal["auto"]
    prompts: int
    seed: int
    labels: dict[str, str]
    by_examples: dict[str, Any]
    by_loop: dict[str, Any]
    halting: dict[str, Any]
    shifts: dict[str, dict[str, Any]]
    above_optimal: NotRequired[dict[str, Any]]
    language: NotRequired[LanguageResult]
    published: list[dict[str, Any]]
    published_loops: list[int]
    format: int
    step: int
    weights: str
    settings: dict[str, Any]
    sources: dict[str, str]
    key: str
    command: str
    others: NotRequired[list[str]]
