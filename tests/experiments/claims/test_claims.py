"""Claims: not measured without evidence, and decided by it either way."""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy import stats

from looplab.conf.files import read_values
from looplab.conf.mistakes import ConfigError
from looplab.evaluation.statistics import Estimate
from looplab.evaluation.verdict import Verdict
from looplab.experiments.claims import all_claims, decide, find_claim
from looplab.experiments.evidence import Evidence, farthest_from_one, highest, lowest
from looplab.experiments.judge import judge
from looplab.show.verdicts import heading
from tests.golden.claims import frozen_evidence
from tests.golden.claims_page import DECIDABLE

from .scenarios import SCENARIOS
from .synthetic import evidence, language, seeds


def verdict_on(name: str, evidence: Evidence, scale: str = "small") -> Verdict:
    return judge(find_claim(name), evidence, scale=scale, command="python run.py experiment=x")


def test_without_evidence_nothing_is_measured() -> None:
    for name in all_claims():
        verdict = verdict_on(name, Evidence())
        expected = "paper scale" if find_claim(name).paper_scale else "not measured"
        assert (verdict.verdict, verdict.mean) == (expected, None), name
        assert verdict.note


@pytest.mark.parametrize("name", SCENARIOS)
def test_evidence_decides_either_way_and_unfinished_runs_do_not(name: str) -> None:
    made, holds, fails = SCENARIOS[name]
    whole = made(holds)
    assert verdict_on(name, whole).verdict == "holds"
    assert verdict_on(name, made(fails)).verdict == "fails"
    members = [replace(member, step=member.step - 1) for member in whole.members]
    if members:
        verdict = verdict_on(name, replace(whole, members=members))
        assert verdict.verdict == "not measured"
        assert "training unfinished: " in verdict.note


def test_what_is_frozen_is_not_judged_from_unfinished_runs() -> None:
    """Claims on results alone are left out: measures have seen finished runs only."""
    judged = 0
    for _, names, found in frozen_evidence():
        members = [replace(member, step=member.step - 1) for member in found.members]
        results_alone = replace(found, members=())
        for name in names:
            if not members or verdict_on(name, results_alone).verdict != "not measured":
                continue
            verdict = verdict_on(name, replace(found, members=members))
            assert verdict.verdict == "not measured", name
            assert "training unfinished: " in verdict.note, name
            judged += 1
    assert judged > 60


def test_a_published_number_is_on_its_side() -> None:
    """Where a number is published, the paper's claim holds by our line."""
    for name, claimed in all_claims().items():
        if claimed.published[:1].isdigit():
            number = float(Fraction(claimed.published.split()[0]))
            published = Estimate(number, number, number, 1)
            assert decide(claimed, published) == "holds", name


def test_each_claim_of_a_paper_is_one_of_its_statements() -> None:
    """And the suite's own claims are none of any paper's."""
    papers = {"ICL": "2311.12424", "RES": "2606.18524", "ISO": "2604.21106", "FLT": "2605.18797"}
    claims = all_claims()
    for name, claimed in claims.items():
        paper = heading(claimed.source)
        own = paper.removeprefix("arXiv ") in papers.values()
        assert bool(claimed.statement) == own, name
        if own:
            assert paper == f"arXiv {papers[claimed.statement[:3]]}", name
            assert claimed.says, name
    statements = read_values("statements").values()
    listed = [name for statement in statements for name in statement.get("claims", ())]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= claims.keys()


def test_a_statement_has_claims_or_a_reason_why_it_has_none() -> None:
    for identity, statement in read_values("statements").items():
        assert bool(statement.get("claims")) != bool(statement.get("without")), identity
        assert statement.keys() <= {"says", "claims", "without", "thought"}, identity


def test_every_statement_of_the_papers_has_a_row() -> None:
    decidable = set()
    for paper, count in DECIDABLE.items():
        decidable |= {f"{paper}-{number}" for number in range(1, count + 1)}
    known = read_values("statements").keys()
    assert decidable - known == set(), "statements without a row"
    assert known - decidable == set(), "rows of no statement"


def test_an_old_name_is_answered_by_the_new_one() -> None:
    with pytest.raises(ConfigError, match="it is now fig06_scaled_x_3_is_worse"):
        find_claim("fig06_scaled_x_3")
    for old, before in read_values("old_claims").items():
        assert before["now"] in all_claims(), old


def test_the_rival_of_the_best_depth_is_not_chosen_where_it_is_judged() -> None:
    """Of 3 and 6 layers 6 are better in distribution, 3 on the shifted inputs."""
    shift, runs = "scaled_x_3/model_at_b", []
    for level, shifted, shape in (
        (0.1, 0.3, {"family": "looped"}),
        (0.2, 0.1, {"family": "standard", "n_layer": 3}),
        (0.1, 0.2, {"family": "standard", "n_layer": 6}),
    ):
        for member in seeds(level=level, **shape):
            errors = member.arrays["model_at_b"] * shifted / level
            runs.append(replace(member, arrays={**member.arrays, shift: errors}))
    verdict = verdict_on("fig06_scaled_x_3_is_worse", Evidence(runs))
    assert verdict.mean == pytest.approx(1.5, rel=0.05)


def grid(stays_from: Mapping[str, int], setting: str, **fixed: int) -> Evidence:
    """Models of classes with three values of b or T, whose error doubles beyond b below one."""
    runs = []
    for task, least in stays_from.items():
        for value in (5, 10, 15):
            (member,) = seeds(1, task=task, **{setting: value}, **fixed)
            member.arrays["by_loop"][:, member.config.loops.b :] *= 1.0 if value >= least else 2.0
            runs.append(member)
    return Evidence(runs)


@pytest.mark.parametrize(("linear", "verdict"), [(15, "holds"), (5, "fails"), (20, "holds")])
@pytest.mark.parametrize(
    ("name", "setting", "fixed", "elsewhere"),
    [
        ("loops_sparse_linear_below_linear", "b", {"T": 10}, {"T": 15}),
        ("loops_sparse_linear_window_below_linear", "T", {"b": 20}, {"b": 40}),
    ],
)
def test_a_class_that_stays_with_less_is_easier(
    name: str,
    setting: str,
    fixed: dict[str, int],
    elsewhere: dict[str, int],
    linear: int,
    verdict: str,
) -> None:
    """Models of another T, or of another b, do not count."""
    asked = grid({"sparse_linear": 10, "linear": linear}, setting, **fixed)
    others = grid({"sparse_linear": 15, "linear": 5}, setting, **elsewhere)
    found = Evidence([*asked.members, *others.members])
    assert verdict_on(name, found, "paper").verdict == verdict
    assert verdict_on(name, found).verdict == "paper scale"


def test_narrow_heads_are_beside_the_most_that_are_wide() -> None:
    """Inputs have four dimensions; heads of eight are as wide, those of 16 and 32 are narrower."""
    runs = []
    for heads, factor in ((2, 4.0), (8, 1.0), (16, 2.0), (32, 3.0)):
        runs += seeds(level=0.1 * factor, n_head=heads, n_embd=32)
    judged = [
        verdict_on(f"fig07_{name}", Evidence(runs)).mean
        for name in ("narrow_heads_are_worse", "more_heads_help")
    ]
    assert judged == pytest.approx([3.0, 0.25], rel=0.05)


def test_an_error_is_compared_after_all_loops_that_were_followed() -> None:
    """Of which there must be five times b."""
    (member,) = seeds(1, b=8)
    member.arrays["by_loop"][:, 70:] *= 3.0
    verdict = verdict_on("fig02_stays_beyond_b", Evidence([member]))
    assert verdict.mean == pytest.approx(3.0, rel=0.05)
    short = {**member.arrays, "by_loop": member.arrays["by_loop"][:, :30]}
    verdict = verdict_on("fig02_stays_beyond_b", Evidence([replace(member, arrays=short)]))
    assert verdict.verdict == "not measured"


def test_a_cell_of_the_paper_is_judged_by_its_own_loops_and_window() -> None:
    runs = []
    for b, T, factor in ((12, 15, 2.0), (20, 15, 1.0), (20, 10, 2.0)):
        (member,) = seeds(1, b=b, T=T)
        member.arrays["by_loop"][:, b:] *= factor
        runs.append(member)
    for name in ("twelve_loops_grow", "twenty_loops_stay", "twenty_loops_grow_at_smaller_T"):
        assert verdict_on(f"fig04_{name}", Evidence(runs), "paper").verdict == "holds", name
    grown = Evidence([*runs, *seeds(1, task="sparse_linear", b=20, T=10)])
    verdict = verdict_on("loops_linear_grow_more_than_sparse_linear", grown, "paper")
    assert verdict.mean == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(("loop", "verdict"), [(20, "holds"), (12, "fails"), (40, "fails")])
def test_loops_are_counted_until_a_standard_model_is_reached(loop: int, verdict: str) -> None:
    (looped,) = seeds(1, b=30)
    looped.arrays["by_loop"][:, : loop - 1] *= 10
    looped.arrays["by_loop"][:, loop - 1 :] *= 0.5
    standard = seeds(1, family="standard", n_layer=8)
    found = Evidence([looped, *standard])
    judged = verdict_on("fig07_twenty_loops_equal_eight_layers", found, "paper")
    assert judged.verdict == verdict
    assert judged.mean == pytest.approx(loop / 8)


def test_an_error_that_is_no_number_has_no_first_loop() -> None:
    (looped,) = seeds(1, b=12)
    looped.arrays["by_loop"][:, 3] = math.nan
    found = Evidence([looped, *seeds(1, family="standard", n_layer=3)])
    assert verdict_on("fig07_loops_exceed_layers", found).verdict == "not measured"


def test_of_several_estimates_the_least_favourable_counts() -> None:
    close, far = Estimate(1.0, 0.9, 1.2, 1), Estimate(0.9, 0.5, 1.1, 1)
    assert [highest([close, far]), lowest([close, far])] == [close, far]
    assert farthest_from_one([close, far]) == far
    lost = Estimate(math.nan, math.nan, math.nan, 1)
    for choose in (highest, lowest, farthest_from_one):
        assert math.isnan(choose([close, lost, far]).mean)


@pytest.mark.parametrize(
    ("scale", "memory", "factors"),
    [("a window", [[1.0, 1.0], [4.0, 4.0]], (2.0, 1.0)), ("loops", [[1, 2], [1, 2]], (1.0, 2.0))],
)
def test_memory_is_compared_by_doublings(
    scale: str, memory: list[list[float]], factors: tuple[float, float]
) -> None:
    found = {"windows": [1, 4], "loops": [4, 8], "memory": memory}
    whole = evidence(seeds(), difficulty={"classes": {"linear": found}})
    judged = [
        verdict_on(f"difficulty_memory_{name}", whole).mean
        for name in ("grows_with_T", "does_not_grow_with_b")
    ]
    assert judged == pytest.approx(factors), scale


def test_the_base_size_is_judged_by_its_own_loops() -> None:
    """LT worsens from three loops to six, which is not its most, and collapses at nine."""
    shape = {"block": "flt", "injection": "none"}
    found = language(2.0, 3, connectivity="LT", **shape)
    found += language(2.2, 6, connectivity="LT", **shape)
    found += language(2.1, 9, connectivity="LT", **shape)
    for connectivity, level in (("LT_i", 2.1), ("LT_ai", 2.1), ("FLT", 2.0)):
        found += language(2.1, 3, connectivity=connectivity, **shape)
        found += language(2.1, 6, connectivity=connectivity, **shape)
        found += language(level, 9, connectivity=connectivity, **shape)
    cells = {"6": {"collapse": [""] * 4}, "9": {"collapse": ["not finite"] * 4}}
    result = {"loops": [6, 9, 12], "steps": 800, "variants": {"LT": cells}}
    whole = evidence(found, fully_looped=result)
    expected = {"LT_worsens": 1.1, "LT_collapses": 1.0, "LT_i_stops_gaining": 1.0}
    of_FLT = ("gains", "gains_at_last", "below_LT_i", "below_LT_ai")
    expected |= dict.fromkeys((f"FLT_{name}" for name in of_FLT), 2.0 / 2.1)
    for name, mean in expected.items():
        verdict = verdict_on(f"language_base_{name}", whole, "paper")
        assert verdict.verdict == "holds", name
        assert verdict.mean == pytest.approx(mean, rel=1e-2), name
        assert verdict_on(f"language_base_{name}", whole).verdict == "paper scale"
    without = evidence(found, fully_looped={"loops": [12], "steps": 800, "variants": {}})
    verdict = verdict_on("language_base_LT_collapses", without, "paper")
    assert verdict.note == "no LT of 9 loops"


def test_no_kind_of_attention_may_collapse() -> None:
    kinds = ("FLT", "FLT_grouped", "FLT_latent", "FLT_sliding")
    for lost, expected in ((0, "holds"), (4, "fails")):
        variants = {name: {"12": {"collapse": [""] * 4}} for name in kinds}
        variants["FLT_latent"]["12"]["collapse"][:lost] = ["not finite"] * lost
        result = {"loops": [12], "steps": 800, "variants": variants}
        found = evidence(seeds(connectivity="FLT"), fully_looped=result)
        assert verdict_on("fully_looped_no_attention_collapses", found).verdict == expected


def test_what_is_counted_is_beside_what_is_published() -> None:
    """The ratio that is farthest from 1 counts; a configuration that was not counted is missed."""
    counts = {"FLT, K = 9": {"parameters": 127.1e6}, "FLT, base": {"parameters": 300e6}}
    verdict = verdict_on("counts_fully_looped_sizes", evidence(counts={"counts": counts}))
    assert verdict.verdict == "fails"
    assert verdict.mean == pytest.approx(300 / 318)
    del counts["FLT, base"]
    verdict = verdict_on("counts_fully_looped_sizes", evidence(counts={"counts": counts}))
    assert verdict.note == "nothing was counted of FLT, base"


def test_few_collapsed_seeds_have_jeffreys_interval() -> None:
    for reasons, expected in (
        (["", "", "", ""], "fails"),
        (["", ""], "not settled"),
        (["not finite", "ends high", "ends high", "ends high"], "holds"),
    ):
        result = {
            "loops": [2, 8],
            "steps": 800,
            "variants": {"LT_ai": {"8": {"collapse": reasons}}},
        }
        found = evidence(seeds(connectivity="LT_ai"), fully_looped=result)
        verdict = verdict_on("fully_looped_LT_ai_collapses", found)
        assert verdict.verdict == expected
        lost, kept = sum(map(bool, reasons)) + 0.5, sum(not why for why in reasons) + 0.5
        if lost > 1 and kept > 1:
            assert verdict.low == pytest.approx(stats.beta.ppf(0.05, lost, kept))
