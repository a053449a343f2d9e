"""Claims on ill-conditioned inputs, from what the measure found."""

from __future__ import annotations

from typing import Any

import pytest

from reloop.conf.schema import Config, ModelConfig
from reloop.experiments.claims import conditioning as conditioning
from reloop.experiments.claims.claim import CLAIMS, Evidence, Measured, NotMeasured

_MEMBERS = [
    Measured("", config, config.training.steps, {})
    for config in (
        Config(),
        Config(model=ModelConfig(family="standard", n_layer=8, injection="none")),
    )
]


def _number(value: float) -> dict[str, float | str]:
    return {"mean": value, "low": value, "high": value, "seeds": 1, "note": ""}


def _result(ratio: float | None) -> dict[str, Any]:
    groups = [
        {"family": family, "b": b, "rise": _number(rise)}
        for family, b, rise in (("looped", 4, 9.0), ("looped", 8, 1.05), ("standard", 8, 1.4))
    ]
    return {"groups": groups, "gain_ratio": None if ratio is None else _number(ratio)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("looped_error_falls_with_every_loop", 1.05),
        ("standard_error_rises_between_layers", 1.4),
        ("ill_conditioned_inputs_need_depth", 2.5),
    ],
)
def test_a_claim_reads_its_own_family_and_the_most_loops(name: str, value: float) -> None:
    estimate = CLAIMS[name].estimate
    assert estimate(Evidence(_MEMBERS, {"conditioning": _result(2.5)})).mean == value
    nothing: dict[str, Any] = {"conditioning": {"groups": [], "gain_ratio": None}}
    for evidence in (
        Evidence(_MEMBERS),
        Evidence(_MEMBERS, nothing),
        Evidence((), {"conditioning": _result(2.5)}),
    ):
        with pytest.raises(NotMeasured):
            estimate(evidence)
