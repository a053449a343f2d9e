"""A claim, and what it is judged from.

@claim("looped_matches_standard", "A looped model …", source="arXiv 2311.12424, Figure 2",
       quantity="error of looped over standard at the last query", line=1.25, holds_if="below",
       published_steps=500_000)
def looped_matches_standard(evidence: Evidence) -> Estimate: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from reloop.conf.mistakes import ConfigError, nearest
from reloop.conf.schema import Config


class NotMeasured(Exception):
    """Why a claim cannot be judged from what there is: its message, one line."""


class Estimate(NamedTuple):
    """The quantity of a claim with its 90 % interval, and the number of training seeds in it."""

    mean: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True)
class Measured:
    """A finished run: its errors prompt by prompt, on the same prompts for all members of an
    experiment at one scale.

    `arrays` are those of its evaluation: `model_at_b` [prompts, k] at its b loops, `model`
    [prompts, k] at `evaluation.loops`, `by_loop` [prompts, loops] of the last query, each solver's
    by its name [prompts, k], and those on shifted inputs as '<shift>/model_at_b'. All are over the
    task's divisor.
    """

    label: str
    config: Config
    step: int
    arrays: Mapping[str, NDArray[Any]]
    labels: Mapping[str, str] = field(default_factory=dict)  # of the solvers, by name
    path: str = ""

    @property
    def finished(self) -> bool:
        """Whether training made all its steps; a claim is judged from finished runs alone."""
        return self.step == self.config.training.steps > 0


@dataclass(frozen=True)
class Evidence:
    """What an experiment measured: its finished runs, and the results of other commands (probing,
    tables, stability) by name, as in their JSON files."""

    members: Sequence[Measured] = ()
    results: Mapping[str, Any] = field(default_factory=dict)

    def where(self, **settings: Any) -> list[Measured]:
        """The runs with these settings, given by the last part of their key (`family="looped"`,
        `b=12`, `name="linear"` for the task), in the order of their seeds.

        Raises NotMeasured if there is none."""
        found = [member for member in self.members if _matches(member.config, settings)]
        if not found:
            raise NotMeasured("no finished run with " + _text(settings))
        return sorted(found, key=lambda member: member.config.seed)


@dataclass(frozen=True)
class Claim:
    """A sentence that a number decides: it holds where the interval of the estimate lies on the
    side `holds_if` of `line`, fails where it lies on the other, and is not settled where it covers
    the line."""

    name: str
    sentence: str
    source: str
    quantity: str
    line: float
    holds_if: Literal["above", "below"]
    estimate: Callable[[Evidence], Estimate]
    published: str = ""
    published_steps: int | None = None
    published_scale: str = "paper"


CLAIMS: dict[str, Claim] = {}


def claim(
    name: str,
    sentence: str,
    *,
    source: str,
    quantity: str,
    line: float,
    holds_if: Literal["above", "below"],
    published: str = "",
    published_steps: int | None = None,
    published_scale: str = "paper",
) -> Callable[[Callable[[Evidence], Estimate]], Callable[[Evidence], Estimate]]:
    """Register the function that estimates a claim's quantity, under the claim's name."""

    def register(estimate: Callable[[Evidence], Estimate]) -> Callable[[Evidence], Estimate]:
        assert name not in CLAIMS, name
        CLAIMS[name] = Claim(
            name, sentence, source, quantity, line, holds_if, estimate,
            published, published_steps, published_scale,
        )  # fmt: skip
        return estimate

    return register


def find_claim(name: str) -> Claim:
    """The claim of a name; ConfigError for an unknown one."""
    if name not in CLAIMS:
        raise ConfigError("claims", f"cannot hold {name!r}{nearest(name, CLAIMS)}")
    return CLAIMS[name]


def _matches(config: Config, settings: Mapping[str, Any]) -> bool:
    from reloop.conf.build import config_to_mapping, flatten

    flat = flatten(config_to_mapping(config))
    return all(
        any(value == wanted for key, value in flat.items() if key.rpartition(".")[2] == name)
        for name, wanted in settings.items()
    )


def _text(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items()) or "any settings"
