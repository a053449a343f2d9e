"""Claims on the algorithm of a trained model's loops, from what the measures found."""

from __future__ import annotations

import math
from typing import Any

import pytest

from looplab.conf.schema import Config, LoopsConfig, ModelConfig
from looplab.experiments.claims import CLAIMS, Evidence, Measured, NotMeasured

from .of_runs import number

_MEMBER = Measured("looped", Config(), Config().training.steps, {})


def _found(b: int, newton: float, descent: float) -> dict[str, Any]:
    values = {"newton": newton, "gradient_descent": descent}
    methods = {
        method: {name: number(value) for name in ("per_loop", "acceleration", "nearer")}
        for method, value in values.items()
    }
    return {"label": f"b = {b}", "family": "looped", "b": b, "methods": methods}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("loop_makes_newton_steps", "newton"),
        ("newton_step_is_linear", "newton"),
        ("descent_step_accelerates", "gradient_descent"),
        ("newton_nearer_than_descent", "newton"),
    ],
)
def test_a_claim_reads_its_own_method_of_the_model_with_the_most_loops(
    name: str, method: str
) -> None:
    groups = [_found(4, -1.0, -2.0), _found(12, 5.0, 7.0), {**_found(20, 0, 0), "family": "tied"}]
    evidence = Evidence([_MEMBER], {"iterates": {"groups": groups}})
    expected = {"newton": 5.0, "gradient_descent": 7.0}[method]
    found = CLAIMS[name].estimate(evidence)
    assert (found.mean, found.low, found.high, found.seeds) == (expected,) * 3 + (2,)


@pytest.mark.parametrize("name", ["loop_makes_newton_steps", "descent_step_accelerates"])
def test_what_is_missing_or_not_finite_is_not_measured(name: str) -> None:
    found = {"iterates": {"groups": [_found(12, math.nan, 1.0)]}}
    for members, results in (
        ([], found),
        ([_MEMBER], {}),
        ([_MEMBER], {"iterates": {"groups": []}}),
    ):
        with pytest.raises(NotMeasured):
            CLAIMS[name].estimate(Evidence(members, results))
    with pytest.raises(NotMeasured, match="not finite"):
        CLAIMS["loop_makes_newton_steps"].estimate(Evidence([_MEMBER], found))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("linear_attention_learns_inverse_covariance", "spread"),
        ("linear_attention_reaches_preconditioned_descent", "over_theory"),
        ("linear_attention_beats_plain_descent", "over_descent"),
    ],
)
def test_of_linear_attention_the_model_with_the_fewest_loops_counts(name: str, key: str) -> None:
    config = Config(
        model=ModelConfig(n_embd=20, n_head=1, injection="linear_attention"),
        loops=LoopsConfig(b=4, T=1),
    )
    members = [Measured("b = 4", config, config.training.steps, {})]
    groups = [{"b": 8, key: number(9.0)}, {"b": 4, key: number(1.5)}]
    evidence = Evidence(members, {"preconditioner": {"groups": groups}})
    assert CLAIMS[name].estimate(evidence).mean == 1.5
    for nothing in (
        Evidence(members),
        Evidence([_MEMBER], {"preconditioner": {"groups": groups}}),
        Evidence(members, {"preconditioner": {"groups": []}}),
    ):
        with pytest.raises(NotMeasured):
            CLAIMS[name].estimate(nothing)
