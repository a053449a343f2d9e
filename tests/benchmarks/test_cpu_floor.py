"""The floor on a CPU is the cost model's work at the rates of its products."""

from __future__ import annotations

import pytest
import torch

from reloop.benchmarks import cpu_floor
from reloop.benchmarks.cost import Card, card_floor, work_of
from reloop.benchmarks.settings import NAMES, Name, named_config

RATES = {"fp32": 1e11, "bf16": 2e11}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "mixed"])
def test_products_at_a_known_rate_give_the_cost_models_seconds(
    name: Name, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(tokens: int, inner: int, outer: int, dtype: torch.dtype) -> tuple[float, float]:
        once = 2 * tokens * inner * outer / RATES["bf16" if dtype is torch.bfloat16 else "fp32"]
        return once, 2 * once

    monkeypatch.setattr(cpu_floor, "_product_seconds", seconds)
    work, card = work_of(named_config(name)), Card(RATES, 1.0, "no card")
    found = cpu_floor.measured_floor(work, precision)
    assert found == pytest.approx(card_floor(work, card, precision))
    if precision != "mixed":
        assert found == pytest.approx(work.flops / RATES[precision])
