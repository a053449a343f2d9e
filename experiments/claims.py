"""A claim, and what it is judged from.

@claim("fig02_matches_standard", "A looped model …", source="arXiv 2311.12424, Figure 2",
       quantity="error of looped over standard at the last query", below=1.25,
       published_steps=500_000)
def matches_standard(evidence: Evidence) -> Estimate: ...

What the papers say, statement by statement, and which claims judge it, is in conf/statements.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from looplab.conf.build import config_to_mapping, flatten
from looplab.conf.files import read_values
from looplab.conf.mistakes import ConfigError, nearest
from looplab.conf.schema import Config
from looplab.evaluation.measured import Measured
from looplab.evaluation.plain import part_of
from looplab.evaluation.remarks import shared, unfinished
from looplab.evaluation.statistics import Estimate, NotMeasured, finite, seeds_note
from looplab.evaluation.verdict import Line, Said, Side, Verdict, VerdictName
from looplab.show.verdicts import ends_of
from looplab.training.assemble import build_task
from looplab.training.validation import evaluation_prompts

from .definition import RUN_MEASURES

# Files of this folder with claims.
_MODULES = (
    *("in_context", "probes", "tables", "jacobian", "stopping", "post_norm", "language_depth"),
    *RUN_MEASURES,
)
_WORST = 0.9  # of the error of predicting zero
_PROMPTS = 1280  # on which that error is measured


@dataclass(frozen=True)
class Evidence:
    """The measurements of an experiment: its runs, and the results of other commands (probing,
    tables, measures of runs) by name, as in their JSON files.

    `left_out` says why no claim may be judged from some of the runs; `asked` collects the runs that
    a claim asked for, these included.

    Examples
    --------
    >>> from looplab import Evidence
    >>> Evidence(results={"wide": {"moves": {"16": [0.1]}}}).result("wide")["moves"]
    {'16': [0.1]}
    """

    members: Sequence[Measured] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[Measured, str] = field(default_factory=dict)
    asked: list[Measured] = field(default_factory=list, compare=False)

    def where(self, **settings: Any) -> list[Measured]:
        """The runs with these settings, given by the last part of their key (`family="looped"`,
        `b=12`, `name="linear"` for the task), in the order of their seeds.

        Raises NotMeasured if there is none."""

        def matches(config: Config) -> bool:
            flat = flatten(config_to_mapping(config)).items()
            own = [(key.rpartition(".")[2], value) for key, value in flat]
            return all(each in own for each in settings.items())

        asked = [each for each in self.members if matches(each.config)]
        self.asked.extend(each for each in asked if each not in self.asked)
        found = [each for each in asked if each not in self.left_out]
        if not found:
            text = ", ".join(f"{key} = {value}" for key, value in settings.items())
            raise NotMeasured(f"no finished run with {text or 'any settings'}")
        return sorted(found, key=lambda member: member.config.seed)

    @cached_property  # the same for each claim that is judged from it
    def unfinished(self) -> dict[Measured, str]:
        """Why no claim may be judged from some of the runs."""
        reasons = {member: why_unfinished(member) for member in self.members}
        return {member: why for member, why in reasons.items() if why}

    def result(self, *names: str) -> Any:
        """The result under these names, such as ("iso_depth", "phi"); NotMeasured without it."""
        value: Any = self.results
        for name in names:
            if not isinstance(value, Mapping) or name not in value:
                raise NotMeasured(f"no result of {' '.join(names)}")
            value = value[name]
        return value


Estimator = Callable[[Evidence], Estimate]


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


CLAIMS: dict[str, Claim] = {}


def claim(
    name: str, sentence: str, *, below: float | None = None, above: float | None = None, **more: Any
) -> Callable[[Estimator], Estimator]:
    """Register the function that estimates a claim's quantity, under the claim's name.

    Parameters
    ----------
    name, sentence : str
        The claim's own name, and what it says.
    below, above : float, optional
        The line; the claim holds below it or above it, with both between the two.
    **more
        The other fields of `Claim`. Its statement is by default that of conf/statements.yaml.

    Examples
    --------
    >>> from looplab import claim, over_seeds
    >>> @claim("moves_less", "…", source="a question of my own", quantity="a ratio", below=1.0)
    ... def moves_less(evidence):
    ...     return over_seeds(evidence.result("wide")["ratio"], log=True)
    """
    side: Side
    line: Line
    if above is not None and below is not None:
        side, line = "within", (above, below)
    elif above is not None:
        side, line = "above", above
    else:
        assert below is not None, name
        side, line = "below", below

    def register(estimate: Estimator) -> Estimator:
        assert name not in CLAIMS, name
        said = {**_statement_of().get(name, {}), "sentence": sentence, **more}
        CLAIMS[name] = Claim(name=name, line=line, holds_if=side, estimate=estimate, **said)
        return estimate

    return register


@lru_cache
def _statement_of() -> Mapping[str, Mapping[str, str]]:
    """The statement of each claim of the papers, by the claim's name: its id and our words."""
    return {
        name: {"statement": identity, "says": statement["says"]}
        for identity, statement in read_values("statements").items()
        for name in statement["claims"]
    }


class Paper(NamedTuple):
    """All that the claims of a paper share: where it is found, the start of their names, and the
    steps and size of its runs, unless a claim has its own."""

    source: str
    prefix: str = ""
    steps: int | None = None
    size: str = ""

    def claim(
        self, name: str, sentence: str, figure: str = "", **more: Any
    ) -> Callable[[Estimator], Estimator]:
        """`claim` on a figure of the paper; "" for the paper as a whole."""
        own = {"published_steps": self.steps, "published_size": self.size, **more}
        source = ", ".join(filter(None, [self.source, figure]))
        return claim(self.prefix + name, sentence, source=source, **own)


SUITE = Paper("this suite")  # what no paper says


def all_claims() -> Mapping[str, Claim]:
    """Every claim of the suite by its name, and those registered elsewhere."""
    for module in _MODULES:
        import_module(f".{module}", __package__)
    return CLAIMS


def find_claim(name: str) -> Claim:
    """The claim of a name; ConfigError for an unknown one, which says the new name of an old
    one."""
    claims = all_claims()
    if name not in claims:
        if now := read_values("old_claims").get(name, {}).get("now"):
            raise ConfigError(
                "claims", f"cannot hold {name!r}: it is now {now}; see docs/claims.md"
            )
        hint = nearest(name, claims)
        hint = "; docs/claims.md has them" if hint.startswith("; expected one of") else hint
        raise ConfigError("claims", f"cannot hold {name!r}{hint}")
    return claims[name]


def judge(claim: Claim, evidence: Evidence, *, scale: str, command: str) -> Verdict:
    """The verdict, from finished runs that learned something: those without training, before their
    last step, before the end of their curriculum or no better than predicting zero are left out,
    and the note says so.

    The claim is not measured if the evidence lacks what it needs, or the estimate is not a number.
    The note says, too, where the scale is not the published one.
    """
    left_out = evidence.unfinished
    usable = replace(evidence, left_out=left_out, asked=[])
    wants_paper_scale = claim.paper_scale if scale != "paper" else ""
    try:
        if wants_paper_scale:
            raise NotMeasured(wants_paper_scale)
        estimate = claim.estimate(usable)
        runs = [member for member in usable.asked if member not in left_out]
        known = [] if estimate.steps is None else [estimate.steps]
        steps = min([*known, *(member.step for member in runs)], default=0)  # the fewest
        if steps == 0 and claim.published_steps != 0:
            raise NotMeasured("no trained run")
        if not math.isfinite(estimate.mean) or any(map(math.isnan, estimate[:3])):
            raise NotMeasured(f"{claim.quantity}: {estimate.mean:g}, an error is not finite")
        verdict, notes = decide(claim, estimate), [_size_note(claim, estimate, runs, steps, scale)]
        if verdict == "not settled":
            covered = [end for end in ends_of(claim.line) if estimate.low <= end <= estimate.high]
            nearest_end = min(covered, key=lambda end: abs(end - estimate.mean))
            notes.insert(0, seeds_note(nearest_end, estimate))
        if claim.line_set == "after":
            notes.append("the line was set after the result was known")
    except NotMeasured as reason:
        estimate, runs, steps = Estimate(math.nan, math.nan, math.nan, 0), [], 0
        verdict, notes = "paper scale" if wants_paper_scale else "not measured", [str(reason)]
    lost = [f"{_named(each)} ({left_out[each]})" for each in usable.asked if each in left_out]
    notes += [estimate.note, f"left out: {', '.join(lost)}" if lost else ""]
    remarks: dict[str, list[str]] = {}  # of one label and seed (several tasks) together
    for member in runs:
        lines = remarks.setdefault(_named(member), [])
        lines += [line for line in member.remarks if line not in lines]
    notes += shared(remarks)
    mean, low, high = map(finite, estimate[:3])
    return Verdict(
        **part_of(Said, claim),
        claim=claim.name,
        mean=mean,
        low=low,
        high=high,
        seeds=estimate.seeds,
        steps=steps,
        scale=scale,
        verdict=verdict,
        note="; ".join(filter(None, notes)),
        command=command,
    )


def decide(claim: Claim, estimate: Estimate) -> VerdictName:
    """The claim holds where the interval lies on its side of the line, or in its band; it fails
    where the interval lies on the other side, or outside."""
    first, last = ends_of(claim.line)[0], ends_of(claim.line)[-1]
    has_lower, has_upper = claim.holds_if != "below", claim.holds_if != "above"
    if (has_lower and estimate.high < first) or (has_upper and estimate.low > last):
        return "fails"
    above, below = estimate.low > first, estimate.high < last
    return "holds" if (above or not has_lower) and (below or not has_upper) else "not settled"


def why_unfinished(member: Measured) -> str:
    """The reason why no claim may be judged from a run: 'training unfinished: 400 of 7,000 steps',
    or 'learned nothing: …', as its model predicts new prompts of its endless training set hardly
    better than zero does: such models match each other, and stay what they are beyond b. Empty for
    others."""
    if member.step == 0:
        return "untrained"
    config, task = member.config, build_task(member.config)
    if lines := unfinished(config, task, member.step):
        return ", ".join(lines)
    errors = member.arrays.get("model_at_b")
    memorised = task.distinct_prompts or task.distinct_functions  # it may fail on new ones
    if errors is None or task.loss != "squared_error" or memorised:
        return ""
    prompts = evaluation_prompts(task, _PROMPTS, config.task.points, config.evaluation.seed)
    zero = float(prompts.ys[:, -1].square().mean()) / task.divisor  # above 1 with noise
    error = float(errors[:, -1].mean())
    if not error > _WORST * zero:
        return ""
    return f"learned nothing: error {error:.2g} at the last query, {zero:.2g} of predicting zero"


def _size_note(
    claim: Claim, estimate: Estimate, runs: Sequence[Measured], steps: int, scale: str
) -> str:
    """'at small scale (d = 5, 2,000 steps; published: d = 20, 500,000 steps)', with the dimensions
    of inputs, for texts the width of models; empty for the published scale."""
    configs = [member.config for member in runs]
    is_text = any(config.task.is_text for config in configs)
    sizes = sorted({each.model.n_embd if is_text else each.task.dims for each in configs})
    own = f"{'width' if is_text else 'd'} = {', '.join(map(str, sizes))}" if sizes else ""
    both = (estimate.size or own, steps), (claim.published_size, claim.published_steps)
    ours, published = (
        ", ".join(filter(None, [size, "" if number is None else f"{number:,} steps"]))
        for size, number in both
    )
    if ours == published and (scale == "paper" or not steps):
        return ""
    return f"at {scale} scale ({ours}" + (f"; published: {published})" if published else ")")


def _named(member: Measured) -> str:
    return f"{member.label}, seed {member.config.seed}"
