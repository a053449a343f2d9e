"""A claim, and what it is judged from.

@claim("fig02_matches_standard", "A looped model …", source="arXiv 2311.12424, Figure 2",
       quantity="error of looped over standard at the last query", line=1.25, holds_if="below",
       published_steps=500_000)
def matches_standard(evidence: Evidence) -> Estimate: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeVar

from numpy.typing import NDArray

from looplab.conf.mistakes import ConfigError, nearest
from looplab.conf.schema import Config

_Item = TypeVar("_Item")
_MODULES = (  # of this folder, with claims
    *("in_context", "stability", "fully_looped", "iso_depth", "algorithms", "of_measures"),
    *("plateau", "jacobian", "language"),
)


class NotMeasured(Exception):
    """Why a claim cannot be judged from what there is: its message, one line."""


class Estimate(NamedTuple):
    """The quantity of a claim with its 90 % interval, and the number of training seeds in it.

    A claim on results of other commands says itself after how many training `steps` they were
    measured and on what `size` of model and task; for one on runs the judge reads both from them.
    """

    mean: float
    low: float
    high: float
    seeds: int
    steps: int | None = None
    size: str = ""
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """A run: its errors prompt by prompt, on the same prompts for all members of an experiment at
    one scale.

    `arrays` are those of its evaluation: `model_at_b` [prompts, k] at its b loops, `model`
    [prompts, k] at `evaluation.loops`, `by_loop` [prompts, loops] of the last query, each solver's
    by its name [prompts, k], and those on shifted inputs as '<shift>/model_at_b'. All are over the
    task's divisor. `remarks` are what its numbers must be read with, such as that other code
    trained it.
    """

    label: str
    config: Config
    step: int
    arrays: Mapping[str, NDArray[Any]]
    # Of the solvers by name, under "" on the inputs of training and by shift on shifted ones.
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    path: str = ""
    remarks: Sequence[str] = ()

    @property
    def finished(self) -> bool:
        """Whether training made all its steps; a claim is judged from finished runs alone."""
        return self.step == self.config.training.steps > 0


class Unfinished(NamedTuple):
    """A run that no claim may be judged from, and why."""

    member: Measured
    reason: str


@dataclass(frozen=True)
class Evidence:
    """What an experiment measured: its finished runs, and the results of other commands (probing,
    tables, stability) by name, as in their JSON files.

    `asked` collects the runs that a claim asked for, `left_out` the unfinished ones that it would
    have been given if they were finished.
    """

    members: Sequence[Measured] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
    unfinished: Sequence[Unfinished] = ()
    asked: list[Measured] = field(default_factory=list, compare=False)
    left_out: list[Unfinished] = field(default_factory=list, compare=False)

    def where(self, **settings: Any) -> list[Measured]:
        """The runs with these settings, given by the last part of their key (`family="looped"`,
        `b=12`, `name="linear"` for the task), in the order of their seeds.

        Raises NotMeasured if there is none."""
        found = [member for member in self.members if _matches(member.config, settings)]
        for each in self.unfinished:
            if _matches(each.member.config, settings):
                _add(self.left_out, each)
        if not found:
            text = ", ".join(f"{key} = {value}" for key, value in settings.items())
            raise NotMeasured(f"no finished run with {text or 'any settings'}")
        for member in found:
            _add(self.asked, member)
        return sorted(found, key=lambda member: member.config.seed)

    def result(self, *names: str) -> Any:
        """The result under these names, such as ("stability", "norms"); NotMeasured without it."""
        value: Any = self.results
        for name in names:
            if not isinstance(value, Mapping) or name not in value:
                raise NotMeasured(f"no result of {' '.join(names)}")
            value = value[name]
        return value


@dataclass(frozen=True)
class Claim:
    """A sentence that a number decides: it holds where the interval of the estimate lies on the
    side `holds_if` of `line`, fails where it lies on the other, and is not settled where it covers
    it.

    `published_steps` 0 is a claim on a model as it is initialised; `published_size` says how large
    model and task were.
    """

    name: str
    sentence: str
    source: str
    quantity: str
    line: float
    holds_if: Literal["above", "below"]
    estimate: Callable[[Evidence], Estimate]
    published: str = ""
    published_steps: int | None = None
    published_size: str = ""


Estimator = Callable[[Evidence], Estimate]

CLAIMS: dict[str, Claim] = {}


def claim(name: str, sentence: str, **fields: Any) -> Callable[[Estimator], Estimator]:
    """Register the function that estimates a claim's quantity, under the claim's name; `fields` are
    the others of `Claim`."""

    def register(estimate: Estimator) -> Estimator:
        assert name not in CLAIMS, name
        CLAIMS[name] = Claim(name, sentence, estimate=estimate, **fields)
        return estimate

    return register


class Paper(NamedTuple):
    """What the claims of a paper share: where it is found, the start of their names, and the steps
    and size of its runs, unless a claim has its own."""

    source: str
    prefix: str = ""
    steps: int | None = None
    size: str = ""

    def claim(
        self,
        name: str,
        sentence: str,
        figure: str,
        quantity: str,
        line: float,
        holds_if: Literal["above", "below"],
        published: str = "",
        steps: int | None = None,
        size: str = "",
    ) -> Callable[[Estimator], Estimator]:
        """`claim` on a figure of the paper; "" for the paper as a whole."""
        return claim(
            self.prefix + name,
            sentence,
            source=", ".join(filter(None, [self.source, figure])),
            quantity=quantity,
            line=line,
            holds_if=holds_if,
            published=published,
            published_steps=self.steps if steps is None else steps,
            published_size=size or self.size,
        )


def all_claims() -> Mapping[str, Claim]:
    """Every claim of the suite by its name, and those registered elsewhere."""
    for module in _MODULES:
        import_module(f".{module}", __package__)
    return CLAIMS


def find_claim(name: str) -> Claim:
    """The claim of a name; ConfigError for an unknown one."""
    claims = all_claims()
    if name not in claims:
        raise ConfigError("claims", f"cannot hold {name!r}{nearest(name, claims)}")
    return claims[name]


def _add(items: list[_Item], item: _Item) -> None:
    """Add an item that is not in the list yet; runs hold arrays, which have no truth value."""
    if all(each is not item for each in items):
        items.append(item)


def _matches(config: Config, settings: Mapping[str, Any]) -> bool:
    from looplab.conf.build import config_to_mapping, flatten

    flat = flatten(config_to_mapping(config))
    return all(
        any(value == wanted for key, value in flat.items() if key.rpartition(".")[2] == name)
        for name, wanted in settings.items()
    )
