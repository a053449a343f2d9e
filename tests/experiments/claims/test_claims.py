"""Claims: not measured without evidence, and decided by it either way."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.published import _PATH
from looplab.experiments.claims import Evidence, Verdict, all_claims, claim, find_claim, judge

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


def test_no_name_is_taken_twice() -> None:
    find_claim("fig03_tied_grows")
    with pytest.raises(AssertionError):
        claim("fig03_tied_grows", "", source="", quantity="", above=0)(
            lambda evidence: pytest.fail("is not called")
        )


def test_an_unknown_claim_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'fig03_tied_grows'"):
        find_claim("fig03_tied_grow")


def test_the_published_ratios_are_those_of_the_printed_curves() -> None:
    printed = {}
    for result in json.loads(_PATH.read_text())["results"]:
        for curve in result["curves"]:
            name = curve["model"]["family"] if "model" in curve else curve["name"]
            printed[result["task"]["name"], name] = np.array(curve["mean"])

    def published(name: str) -> float:
        return float(find_claim(name).published.split()[0])

    for task, name in (
        ("linear", "fig02_matches_standard"),
        ("sparse_linear", "fig10_sparse_below_standard"),
        ("relu_network", "fig10_relu_matches_standard"),
    ):
        ratio = printed[task, "looped"].mean() / printed[task, "standard"].mean()
        assert published(name) == pytest.approx(ratio, abs=0.006)
    sparse = printed["sparse_linear", "looped"]
    lasso, least_squares = (printed["sparse_linear", name] for name in ("lasso", "least_squares"))
    assert published("fig10_sparse_near_lasso") == pytest.approx(
        sparse.mean() / lasso.mean(), abs=0.006
    )
    assert published("fig10_sparse_below_least_squares") == pytest.approx(
        sparse[10] / least_squares[10], abs=0.006
    )
    linear, standard = printed["linear", "looped"], printed["linear", "standard"]
    assert published("fig02_last_query") == pytest.approx(linear[-1] / standard[-1], abs=0.006)
    assert published("fig02_near_least_squares") == pytest.approx(linear[-1], abs=6e-5)


def test_a_published_number_is_on_its_side() -> None:
    """Where a number is published, the paper's claim holds by our line."""
    for name, claimed in all_claims().items():
        if claimed.published[:1].isdigit():
            number = float(Fraction(claimed.published.split()[0]))
            assert (number > claimed.line) == (claimed.holds_if == "above"), name
