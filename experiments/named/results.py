"""The result of a named experiment as plain values: what pictures, texts and the report read."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

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
    """All of it. `panels` are as `Panel.plain` has them; `missing` says, a line each, what was not
    finished when the rest was drawn."""

    experiment: str
    title: str
    source: str
    scale: str
    command: str
    members: list[MemberResult]
    panels: list[dict[str, Any]]
    verdicts: list[Verdict]
    missing: list[str]
