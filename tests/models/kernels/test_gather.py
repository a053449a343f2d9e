"""Uses in groups: every use is in one, and the gradients do not depend on how many there are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from looplab.models.kernels.gather import Uses
from tests.models.kernels.yardstick import make_pair, relative_error, step


@given(st.integers(1, 70), st.integers(1, 100))
def test_every_use_is_in_one_group_and_groups_end_at_the_first_use(number: int, group: int) -> None:
    """Backwards: the last use begins the first group, use 0 ends the last."""
    uses = Uses(number, group)
    places = [uses.place(use) for use in range(number)]
    for use, (first, count) in enumerate(places):
        assert first <= use < first + count
        assert count <= group
        assert {place for place in places if place[0] == first} == {(first, count)}
    assert sum(count for _, count in set(places)) == number


def test_gradients_do_not_depend_on_the_groups(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, _ = make_pair(device, torch.bfloat16, injection="multiply")
    whole = step(kernels, 3, 3, 3)
    monkeypatch.setattr(Uses, "of", lambda number, *_: Uses(number, 2))
    parts = step(kernels, 3, 3, 3)
    # Tensor cores add in fewer bits than float32 has: 1.5e-6 on an H200.
    most = 5e-6 if torch.cuda.is_available() else 1e-6
    for name, gradient in whole.items():
        assert relative_error(parts[name], gradient.double()) < most, name
    assert any(not torch.equal(parts[name], whole[name]) for name in whole)
