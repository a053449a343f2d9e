"""Claims on ill-conditioned inputs and on finitely many functions, from what measures found."""

from __future__ import annotations

from typing import Any

import pytest

from looplab.conf.schema import Config, ModelConfig, TaskConfig
from looplab.experiments.claims import CLAIMS, Evidence, Measured, NotMeasured

from .of_runs import number


def _members(*configs: Config) -> list[Measured]:
    return [Measured("", config, config.training.steps, {}) for config in configs]


_TWO_FAMILIES = _members(
    Config(), Config(model=ModelConfig(family="standard", n_layer=8, injection="none"))
)
_OF_FUNCTIONS = _members(
    *(
        Config(
            task=TaskConfig("noisy_linear", distinct_functions=functions),
            model=ModelConfig(family=family, injection="add" if family == "looped" else "none"),
        )
        for functions in (4, 32, 256)
        for family in ("looped", "standard")
    )
)
_CONDITIONING = {
    "groups": [
        {"family": family, "b": b, "rise": number(rise)}
        for family, b, rise in (("looped", 4, 9.0), ("looped", 8, 1.05), ("standard", 8, 1.4))
    ],
    "gain_ratio": number(2.5),
}
_DIVERSITY = {
    "groups": [
        {"family": family, "functions": functions, "new": {"memorises": number(value)}}
        for family, functions, value in (
            ("looped", 32, 0.6), ("looped", 4, 0.9), ("looped", 256, 0.2), ("standard", 2, 0.0),
        )
    ],
    "looped_over_standard": {"256": number(3.0), "4": number(2.0), "32": number(0.8)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("looped_error_falls_with_every_loop", 1.05),
        ("standard_error_rises_between_layers", 1.4),
        ("ill_conditioned_inputs_need_depth", 2.5),
    ],
)
def test_a_claim_reads_its_own_family_and_the_most_loops(name: str, value: float) -> None:
    nothing: dict[str, Any] = {"groups": [], "gain_ratio": None}
    _check(name, value, _TWO_FAMILIES, {"conditioning": _CONDITIONING}, {"conditioning": nothing})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("few_functions_are_memorised", 0.9),
        ("many_functions_are_left_behind", 0.2),
        ("looped_needs_no_more_functions", 0.8),
    ],
)
def test_a_claim_reads_its_own_number_of_functions(name: str, value: float) -> None:
    nothing: dict[str, Any] = {"groups": [], "looped_over_standard": {}}
    _check(name, value, _OF_FUNCTIONS, {"diversity": _DIVERSITY}, {"diversity": nothing})


def _check(
    name: str, value: float, members: list[Measured], found: Any, nothing: dict[str, Any]
) -> None:
    """A claim reads the value, and is not measured without runs, results or groups."""
    estimate = CLAIMS[name].estimate
    assert estimate(Evidence(members, found)).mean == value
    for results in ({}, nothing):
        with pytest.raises(NotMeasured):
            estimate(Evidence(members, results))
    with pytest.raises(NotMeasured, match="no finished run"):
        estimate(Evidence((), found))
