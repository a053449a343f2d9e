"""The dynamics of a run as plain values: the content of dynamics.json. Each part has its loops (of
a standard model, its layers); 0 is the read-in."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from looplab.evaluation.bootstrap import Band
from looplab.evaluation.results import OfRun


class Norm(TypedDict):
    """Norms of a token's state before and after the final norm."""

    loop: list[int]
    raw: Band
    stream: Band


class Change(TypedDict):
    """‖Yₜ − Yₜ₋₁‖, and the same over ‖Yₜ‖."""

    loop: list[int]
    absolute: Band
    relative: Band


class OverPrompts(TypedDict):
    """The spread of the relative residual over prompts."""

    median: list[float | None]
    percentile_5: list[float | None]
    percentile_95: list[float | None]


class AtRest(Band):
    """The share of prompts whose relative residual is below `below` at the last loop."""

    below: float


class Residual(Change):
    """The fixed-point residual ‖M(Yₜ) − Yₜ‖, and the same over ‖Yₜ‖."""

    over_prompts: OverPrompts
    at_rest: AtRest


class Cosines(TypedDict):
    """Cosines between all increments, row by row; those of consecutive ones; the mean over all
    pairs of different ones, None if no pair has a cosine."""

    loop: list[int]
    mean: list[list[float | None]]
    low: list[list[float | None]]
    high: list[list[float | None]]
    consecutive: Band
    pairs: Band | None


class EffectiveRank(TypedDict):
    """Of the states at the x tokens."""

    loop: list[int]
    value: list[float | None]


class Factor(Band):
    """A factor of the Jacobian; the number of iterations, and the largest relative change over the
    last eight."""

    by_prompt: list[float]
    remaining_change: float
    iterations: int


class Contraction(TypedDict):
    """The Jacobian of one loop at `loop`; the share of prompts with a spectral radius below 1."""

    loop: int
    spectral_norm: Factor
    spectral_radius: Factor
    below_one: Band


class Header(OfRun):
    """The run, and how many loops and prompts are measured."""

    loops: int
    prompts: int


class Summary(TypedDict):
    """All measurements."""

    norm: Norm
    change: Change
    cosines: Cosines
    effective_rank: EffectiveRank
    residual: NotRequired[Residual]
    contraction: NotRequired[Contraction]


class Dynamics(Header, Summary):
    """The content of dynamics.json."""
