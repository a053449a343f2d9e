"""The result of a named experiment as plain values: what pictures, texts and the report read."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

State = Literal["finished", "unfinished", "missing", "failed"]
VerdictName = Literal["holds", "fails", "not settled", "not measured"]


class MemberResult(TypedDict):
    """A training of an experiment: `label` of its curve, run folder, the words of the command that
    trains it alone, its step of `steps`, and the remarks that its numbers must be read with."""

    label: str
    run: str
    words: list[str]
    seed: int
    step: int
    steps: int
    state: State
    remarks: list[str]


class Curve(TypedDict):
    """A line of a picture: means with 90 % intervals at the panel's x (None where there is none).

    `kind` decides colour and dash, the same in every picture: a family of models (looped, standard,
    tied) or the name of a solver. `b`: the loops that the model was trained with, where x counts
    loops. `run`: its run folder, where the curve is one run's. `number`: where curves of one kind
    stand for numbers (kind 'loops': of loops), which; larger ones are darker. `x`: its own, where
    it is not the panel's. `points`: whether its values are points, not a line; where it is not
    given, the page draws points over names and lines over numbers. `at`: see `Panel`.
    """

    name: str
    label: str
    kind: str
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    b: NotRequired[int]
    run: NotRequired[str]
    number: NotRequired[float]
    x: NotRequired[list[float | None]]
    points: NotRequired[bool]
    at: NotRequired[float]


class Panel(TypedDict):
    """A picture of lines over numbers; `name` is that of its files. `slider`, where given, names
    what distinguishes curves of one label (as 'loop'), each of which has its value in `at`; `start`
    is the one shown at first. `read` names the x at which a reader may want all values, 'loop'.
    `x_names`, where given, are what the values of x stand for: tables, not numbers."""

    name: str
    title: str
    x_label: str
    y_label: str
    x: list[float]
    log_x: bool
    log_y: bool
    curves: list[Curve]
    levels: dict[str, float]  # horizontal lines, by name
    x_names: NotRequired[list[str]]
    slider: NotRequired[str]
    start: NotRequired[float]
    read: NotRequired[str]


class Verdict(TypedDict):
    """A claim judged: the estimated quantity with its 90 % interval, the line that decides and the
    side on which the claim holds, and what it is based on. `note` says what a reader must know:
    another scale than the published one, or why nothing was measured."""

    claim: str
    sentence: str
    source: str
    quantity: str
    published: str
    mean: float | None
    low: float | None
    high: float | None
    line: float
    holds_if: Literal["above", "below"]
    seeds: int
    steps: int
    published_steps: int | None
    scale: str
    verdict: VerdictName
    note: str
    command: str


class ExperimentResult(TypedDict):
    """All of it. `missing` says, a line each, what was not finished when the rest was drawn."""

    experiment: str
    title: str
    source: str
    scale: str
    command: str
    members: list[MemberResult]
    panels: list[Panel]
    verdicts: list[Verdict]
    missing: list[str]
