"""The number of distinct prompts at which models have learned."""

import pytest

from looplab.experiments.few_prompts import looped_over_standard
from tests.experiments.claims.scenarios import turning


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.0, 1.0), (0.7, 0.7), (0.01, 0.25), (100.0, 16.0)],
)
def test_the_turn_is_between_two_numbers_of_prompts(value: float, expected: float) -> None:
    """It is at least the fewest prompts, 100, and at most twice the most, 3,200, of which 400 are
    the standard model's turn."""
    found = looped_over_standard(turning({2: 1, 3: 400})(value), place=1)
    assert found.mean == pytest.approx(expected)
