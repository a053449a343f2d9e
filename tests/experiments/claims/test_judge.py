"""Verdicts from estimates: by the line, by the scale, and never from unfinished runs."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from looplab.conf.schema import GrowthConfig
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.statistics import Estimate, over_seeds
from looplab.evaluation.verdict import Said, Verdict, VerdictName
from looplab.experiments.claims import Claim, Estimator, find_claim
from looplab.experiments.evidence import Evidence
from looplab.experiments.judge import judge
from looplab.show.verdicts import line_text, statements

from .synthetic import evidence, run, seeds

_SAID = Said(
    sentence="A sentence.", source="a paper", quantity="a ratio", line=1.0, holds_if="below"
)


@dataclass(frozen=True, kw_only=True)
class Given(Estimator):
    """An estimate that is known, of runs of a family, if any."""

    estimate: Estimate
    family: str = ""
    module: str = ""
    name: str = ""

    def __call__(self, evidence: Evidence) -> Estimate:
        if self.family:
            evidence.where(family=self.family)
        return self.estimate


def verdict_of(estimate: Estimate, scale: str = "small", **claimed: Any) -> Verdict:
    """The verdict of a claim with line 1 that one finished run has this estimate of."""
    estimator = Given(estimate=estimate, family="looped")
    claim = Claim(name="name", estimate=estimator, **{**vars(_SAID), **claimed})
    return judge(claim, evidence(seeds(2)), scale=scale, command="python run.py experiment=x")


@pytest.mark.parametrize(
    ("low", "high", "below", "above"),
    [
        (0.5, 0.9, "holds", "fails"),
        (1.1, 2.0, "fails", "holds"),
        (0.9, 1.1, "not settled", "not settled"),
        (1.0, 1.1, "not settled", "not settled"),
        (-math.inf, 0.9, "holds", "fails"),
        (0.9, math.inf, "not settled", "not settled"),
    ],
)
def test_the_interval_decides(low: float, high: float, below: str, above: str) -> None:
    estimate = Estimate(0.95, low, high, 2)
    assert verdict_of(estimate).verdict == below
    assert verdict_of(estimate, holds_if="above").verdict == above
    assert verdict_of(estimate).low == (low if math.isfinite(low) else None)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.95, 1.05, "holds"),
        (0.5, 0.8, "fails"),
        (1.2, math.inf, "fails"),
        (0.8, 1.0, "not settled"),
        (1.0, 1.2, "not settled"),
        (0.8, 1.2, "not settled"),
    ],
)
def test_a_band_has_two_ends(low: float, high: float, verdict: str) -> None:
    estimate = Estimate(1.0, low, high, 2)
    judged = verdict_of(estimate, line=(0.9, 1.1), holds_if="within")
    assert judged.verdict == verdict
    assert line_text(judged) == "0.9 to 1.1"


def test_a_statement_holds_if_all_of_its_claims_do() -> None:
    def of(*names: VerdictName) -> list[Verdict]:
        claims = ("fig16_scaled_x_2_like_few_layers", "fig16_scaled_x_2_is_worse")
        about = {**vars(_SAID), "statement": "ICL-76", "says": "Alike."}
        named = zip(claims, names, strict=False)
        return [Verdict(claim=claim, verdict=name, **about) for claim, name in named]

    assert statements(of("holds", "holds")) == [["ICL-76", "holds", "2", "Alike."]]
    assert statements(of("not settled", "fails"))[0][1] == "fails"
    assert statements(of("not settled", "not measured"))[0][1] == "not measured"
    assert statements(of("holds", "not settled"))[0][1] == "not settled"
    assert statements(of("holds"))[0][2] == "1 of 2"
    assert statements([Verdict(claim="mine", verdict="holds", **vars(_SAID))]) == []


def test_a_line_that_was_set_after_its_result_says_so() -> None:
    estimate = Estimate(0.5, 0.4, 0.6, 2)
    assert "set after" in verdict_of(estimate, line_set="after").note
    assert "set after" not in verdict_of(estimate).note


def test_so_many_seeds_would_settle_it() -> None:
    """As many as of the same spread have an interval beside the line; one less does not."""

    def of_spread(count: int) -> Estimate:
        values = np.linspace(-1, 1, count)
        return over_seeds(0.9 + 0.2 * values / values.std(ddof=1))

    assert of_spread(3).high > 1
    note = verdict_of(of_spread(3)).note
    count = int(note.removeprefix("about ").partition(" ")[0])
    assert of_spread(count).high < 1 <= of_spread(count - 1).high
    assert "more than 100 seeds" in verdict_of(Estimate(0.999, 0.5, 1.5, 3)).note
    for unknown in (Estimate(0.9, 0.8, 1.1, 1), Estimate(0.9, 0.8, math.inf, 3)):
        assert "would" not in verdict_of(unknown).note


def judged(name: str, runs: list[EvaluatedRun]) -> Verdict:
    return judge(find_claim(name), Evidence(runs), scale="small", command="")


def test_an_unfinished_seed_is_left_out_and_named() -> None:
    runs = [*seeds(2, family="standard"), *seeds(2), run(seed=2, level=9.0, step=400)]
    verdict = judged("fig02_matches_standard", runs)
    assert verdict.verdict == "holds"
    assert verdict.seeds == 2
    unfinished = "left out: looped, seed 2 (training unfinished: 400 of 1,000 steps"
    assert unfinished in verdict.note


def changed(group: str, **changes: Any) -> list[EvaluatedRun]:
    """Two looped and two standard runs with other settings of a group."""
    members = []
    for member in (*seeds(2), *seeds(2, family="standard")):
        settings = replace(getattr(member.config, group), **changes)
        members.append(replace(member, config=replace(member.config, **{group: settings})))
    return members


_NOTHING = [*seeds(2, family="standard", level=0.97), *seeds(2, level=0.95)]
_EARLY = changed("curriculum", dims=GrowthConfig(1, 1, (400,)))
_WIDER = [*seeds(2), *changed("task", dims=8)[2:]]


@pytest.mark.parametrize(
    ("claim", "runs", "note"),
    [
        ("fig02_matches_standard", _NOTHING, "learned nothing: error"),
        ("fig02_stays_beyond_b", _NOTHING, ""),
        ("fig02_matches_standard", _EARLY, "curriculum unfinished: dims 3 of 4"),
        ("fig02_matches_standard", _WIDER, "different prompts"),
    ],
)
def test_runs_that_tell_nothing_are_not_compared(
    claim: str, runs: list[EvaluatedRun], note: str
) -> None:
    verdict = judged(claim, runs)
    assert verdict.verdict == "not measured"
    assert note in verdict.note


def test_models_that_know_their_prompts_by_heart_have_learned() -> None:
    standard = seeds(2, family="standard", level=1.5, distinct_prompts=30)
    looped = seeds(2, level=1.2, distinct_prompts=30)
    assert judged("fig05_few_prompts", [*standard, *looped]).verdict == "holds"


def test_results_of_untrained_runs_are_refused() -> None:
    not_trained = Given(estimate=Estimate(0.5, 0.4, 0.6, 2, steps=0))
    claim = Claim(name="name", estimate=not_trained, **vars(_SAID))
    assert judge(claim, Evidence(), scale="small", command="").note == "no trained run"
    at_start = replace(claim, published_steps=0)
    assert judge(at_start, Evidence(), scale="small", command="").verdict == "holds"
