"""Claims on finitely many functions, from what the measure found."""

from __future__ import annotations

from typing import Any

import pytest

from reloop.conf.schema import Config, ModelConfig, TaskConfig
from reloop.experiments.claims import diversity as diversity
from reloop.experiments.claims.claim import CLAIMS, Evidence, Measured, NotMeasured


def _number(value: float) -> dict[str, float | str]:
    return {"mean": value, "low": value - 0.1, "high": value + 0.1, "seeds": 2, "note": ""}


def _members() -> list[Measured]:
    configs = [
        Config(
            task=TaskConfig("noisy_linear", distinct_functions=functions),
            model=ModelConfig(family=family, injection="add" if family == "looped" else "none"),
        )
        for functions in (4, 32, 256)
        for family in ("looped", "standard")
    ]
    return [Measured("", config, config.training.steps, {}) for config in configs]


def _result() -> dict[str, Any]:
    groups = [
        {"family": family, "functions": functions, "new": {"memorises": _number(value)}}
        for family, functions, value in (
            ("looped", 32, 0.6), ("looped", 4, 0.9), ("looped", 256, 0.2), ("standard", 2, 0.0),
        )
    ]  # fmt: skip
    ratios = {"256": _number(3.0), "4": _number(2.0), "32": _number(0.8)}
    return {"groups": groups, "looped_over_standard": ratios}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("few_functions_are_memorised", 0.9),
        ("many_functions_are_left_behind", 0.2),
        ("looped_needs_no_more_functions", 0.8),
    ],
)
def test_a_claim_reads_its_own_number_of_functions(name: str, value: float) -> None:
    assert CLAIMS[name].estimate(Evidence(_members(), {"diversity": _result()})).mean == value
    nothing: dict[str, Any] = {"diversity": {"groups": [], "looped_over_standard": {}}}
    for evidence in (Evidence(_members()), Evidence(_members(), nothing)):
        with pytest.raises(NotMeasured):
            CLAIMS[name].estimate(evidence)
    with pytest.raises(NotMeasured, match="no finished run"):
        CLAIMS[name].estimate(Evidence((), {"diversity": _result()}))
