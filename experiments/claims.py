"""A claim: a sentence that a number decides. It stands in the YAML of an experiment that measures
the number, under its own name. No torch here.

claims:
  fig02_last_query:
    sentence: …
    quantity: error of the last query, looped over standard
    below: 2.0
    estimate: last_query_over_standard   # a function of the file that `estimators` names
    with:
      task: linear

What the papers say, statement by statement, and which claims judge it, is in conf/statements.yaml.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from looplab.conf.build import build
from looplab.conf.files import read_values
from looplab.conf.mistakes import ConfigError, nearest, nearest_key, one_line
from looplab.evaluation.verdict import Line, Said, Side, VerdictName
from looplab.show.verdicts import ends_of

from .definition import EVALUATION, Experiment, load, module_of, names

if TYPE_CHECKING:
    from looplab.evaluation.statistics import Estimate

    from .evidence import Evidence


@dataclass(frozen=True)
class Estimator:
    """A function `name(evidence, …)` of a file of experiments/, or of the user's file, which is
    imported when a claim is judged; and its other arguments."""

    module: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, evidence: Evidence) -> Estimate:
        """The estimate of the claim's quantity."""
        estimate: Estimate = self.function()(evidence, **self.arguments)
        return estimate

    def function(self) -> Callable[..., Estimate]:
        """The function; ConfigError where there is none, or it does not take the arguments."""
        module = module_of(self.module)
        function: Callable[..., Estimate] | None = getattr(module, self.name, None)
        if not inspect.isfunction(function):
            known = [name for name, value in vars(module).items() if _is_public(value, module)]
            problem = f"cannot be {self.name!r}: {self.module}.py has no such function"
            raise ConfigError("estimate", f"{problem}{nearest_key(self.name, known)}")
        try:
            inspect.signature(function).bind(None, **self.arguments)
        except TypeError as error:
            raise ConfigError("with", f"does not fit {self.name}: {one_line(error)}") from None
        return function


def _is_public(value: Any, module: ModuleType) -> bool:
    """Says whether a value is a public function that a module defines."""
    return (
        inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    )


@dataclass(frozen=True, kw_only=True)
class Claim(Said):
    """A sentence that a number decides: it holds where the interval of the estimate lies on the
    side `holds_if` of `line`, fails where it lies on the other, and is not settled where it covers
    it. A line of two numbers is a band, within which the interval lies, or outside, or across an
    end.
    """

    name: str
    estimate: Estimator
    published_size: str = ""  # of model and task
    paper_scale: str = ""  # why only runs of the paper's size decide the claim


@dataclass(frozen=True, kw_only=True)
class _Written:
    """A claim as a file has it: see `Said` and `Claim`."""

    sentence: str
    source: str
    quantity: str
    estimate: str
    published: str = ""
    published_of: str = ""
    published_size: str = ""
    published_steps: int | None = None
    paper_scale: str = ""
    above: float | None = None
    below: float | None = None
    line_set: Literal["before", "after"] = "before"
    statement: str = ""
    says: str = ""


def claims_of(experiment: Experiment) -> dict[str, Claim]:
    """The claims that an experiment decides, by name.

    A claim whose value is the name of another experiment has its text there. ConfigError for a text
    that cannot be read.
    """
    return {name: _read(experiment, name, value) for name, value in experiment.claims.items()}


def _read(experiment: Experiment, name: str, value: Any) -> Claim:
    key = f"{experiment.word}: claims.{name}"
    if isinstance(value, str):
        other = load(value)
        if isinstance(other.claims.get(name), str):
            raise ConfigError(key, f"must be its text: {value} has none of it, either")
        return _named(name, claims_of(other))
    if experiment.is_users and name in _statement_of():
        raise ConfigError(key, "has the name of a claim that comes with the project; rename it")
    if experiment.measure == EVALUATION and not experiment.estimators:
        raise ConfigError(key, "wants estimators: the name of the file with its function")
    if not isinstance(value, Mapping):
        raise ConfigError(key, f"must be its text or the experiment that has it, got {value!r}")
    texts = {**_defaults(experiment), **_statement_of().get(name, {}), **value}
    arguments = texts.pop("with", {})
    written = dict(vars(build(_Written, texts, f"{key}.")))
    function = written.pop("estimate")
    line, side = _line(key, written.pop("above"), written.pop("below"))
    estimate = Estimator(experiment.estimators or experiment.measure, function, arguments)
    return Claim(name=name, estimate=estimate, line=line, holds_if=side, **written)


def _defaults(experiment: Experiment) -> dict[str, Any]:
    """What an experiment says for all of its claims."""
    return {
        "source": experiment.source,
        "published_size": experiment.published_size,
        "published_steps": experiment.published_steps,
    }


def _line(key: str, above: float | None, below: float | None) -> tuple[Line, Side]:
    """The line of a claim, a number or both ends of a band, and the side on which it holds."""
    if above is not None and below is not None:
        return (above, below), "within"
    if above is not None:
        return above, "above"
    if below is not None:
        return below, "below"
    raise ConfigError(key, "must have a line: below, above, or both")


@lru_cache
def _statement_of() -> Mapping[str, Mapping[str, str]]:
    """The statement of each claim of the papers, by the claim's name: its id and our words."""
    return {
        name: {"statement": identity, "says": statement["says"]}
        for identity, statement in read_values("statements").items()
        for name in statement.get("claims", ())
    }


@lru_cache
def all_claims() -> Mapping[str, Claim]:
    """Every claim of the suite, by its name."""
    claims: dict[str, Claim] = {}
    for name in names():
        claims |= claims_of(load(name))
    return claims


def find_claim(name: str) -> Claim:
    """The claim of a name; ConfigError for an unknown one, which says the new name of an old
    one."""
    return _named(name, all_claims())


def _named(name: str, claims: Mapping[str, Claim]) -> Claim:
    if name in claims:
        return claims[name]
    if now := read_values("old_claims").get(name, {}).get("now"):
        raise ConfigError("claims", f"cannot hold {name!r}: it is now {now}; see docs/claims.md")
    hint = nearest(name, claims)
    hint = "; docs/claims.md has them" if hint.startswith("; expected one of") else hint
    raise ConfigError("claims", f"cannot hold {name!r}{hint}")


def decide(claim: Claim, estimate: Estimate) -> VerdictName:
    """The claim holds where the interval lies on its side of the line, or in its band; it fails
    where the interval lies on the other side, or outside."""
    first, last = ends_of(claim.line)[0], ends_of(claim.line)[-1]
    has_lower, has_upper = claim.holds_if != "below", claim.holds_if != "above"
    if (has_lower and estimate.high < first) or (has_upper and estimate.low > last):
        return "fails"
    above, below = estimate.low > first, estimate.high < last
    return "holds" if (above or not has_lower) and (below or not has_upper) else "not settled"
