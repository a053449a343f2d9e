"""Claims: not measured without evidence, and decided by it either way."""

from dataclasses import replace
from fractions import Fraction

import pytest

from looplab.experiments.claims import Evidence, Verdict, all_claims, find_claim, judge
from tests.golden.claims import frozen_evidence

from .scenarios import SCENARIOS


def verdict_on(name: str, evidence: Evidence) -> Verdict:
    return judge(find_claim(name), evidence, scale="small", command="python run.py experiment=x")


def test_without_evidence_nothing_is_measured() -> None:
    for name in all_claims():
        verdict = verdict_on(name, Evidence())
        assert (verdict["verdict"], verdict["mean"]) == ("not measured", None), name
        assert verdict["note"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_evidence_decides_either_way_and_unfinished_runs_do_not(name: str) -> None:
    made, holds, fails = SCENARIOS[name]
    claimed, whole = find_claim(name), made(holds)
    ends = [verdict_on(name, each) for each in (whole, made(fails))]
    assert [each["verdict"] for each in ends] == ["holds", "fails"]
    means = [each["mean"] for each in ends]
    assert means[0] is not None
    assert means[1] is not None
    assert (means[0] > claimed.line > means[1]) == (claimed.holds_if == "above")
    members = [replace(member, step=member.step - 1) for member in whole.members]
    if members:
        verdict = verdict_on(name, replace(whole, members=members))
        assert verdict["verdict"] == "not measured"
        assert "training unfinished: " in verdict["note"]


def test_what_is_frozen_is_not_judged_from_unfinished_runs() -> None:
    """Results that say themselves how far their runs were trained, or have none, are left out."""
    judged = 0
    for experiment, names, found in frozen_evidence():
        members = [replace(member, step=member.step - 1) for member in found.members]
        if members and experiment not in ("stability_fig6", "stability_fig7", "stability_fig8"):
            for name in names:
                verdict = verdict_on(name, replace(found, members=members))
                assert verdict["verdict"] == "not measured", name
                assert "training unfinished: " in verdict["note"]
                judged += 1
    assert judged > 60


def test_a_published_number_is_on_its_side() -> None:
    """Where a number is published, the paper's claim holds by our line."""
    for name, claimed in all_claims().items():
        if claimed.published[:1].isdigit():
            number = float(Fraction(claimed.published.split()[0]))
            assert (number > claimed.line) == (claimed.holds_if == "above"), name
