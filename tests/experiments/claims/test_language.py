"""The order of recurrences at one effective depth, from the least losses at each budget."""

from __future__ import annotations

from typing import Any

import pytest

from looplab.experiments.claims import Evidence, NotMeasured, find_claim
from tests.experiments.claims.of_texts import language
from tests.experiments.claims.synthetic import evidence

_ORDER = find_claim("language_iso_depth_sharing_costs")


def _minima(*losses: tuple[float, ...]) -> Evidence:
    minima: dict[str, Any] = {
        str(budget): {str(2**i): loss for i, loss in enumerate(by_r)}
        for budget, by_r in enumerate(losses, start=12)
    }
    return evidence(language(2.0, 8), language_iso_depth={"minima": minima})


def test_one_pair_in_the_wrong_order_is_enough_to_refute_it() -> None:
    """However much the other pairs have gone up: the order is of all."""
    estimate = _ORDER.estimate(_minima((2.0, 1.9, 2.4, 2.8), (1.8, 1.7, 2.2, 2.6)))
    assert 1.7 / 1.8 < estimate.mean < 1.9 / 2.0
    assert estimate.high < 1


def test_the_order_needs_two_budgets_of_several_recurrences() -> None:
    with pytest.raises(NotMeasured, match="fewer than two budgets"):
        _ORDER.estimate(_minima((2.0, 2.1), (1.8,)))
