"""The container that carries a batch from the tasks to the models."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from reloop.tasks import Prompts
from tests.tasks.statistics import generator


@pytest.fixture
def prompts() -> Prompts:
    """Four prompts of three pairs in two dimensions."""
    return Prompts(torch.randn(4, 3, 2, generator=generator()), torch.arange(12.0).view(4, 3))


@pytest.mark.parametrize(
    ("xs", "ys"),
    [
        ((4, 3), (4, 3)),
        ((4, 3, 2, 1), (4, 3)),
        ((4, 3, 2), (4,)),
        ((4, 3, 2), (3, 4)),
        ((4, 3, 2), (4, 2)),
        ((4, 3, 2), (1, 3)),
        ((4, 3, 2), (4, 3, 1)),
        ((4, 3, 2), (4, 3, 2)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"prompts need xs \[B, n, d\] and ys \[B, n\]") as error:
        Prompts(torch.zeros(xs), torch.zeros(ys))
    assert str(list(xs)) in str(error.value)
    assert str(list(ys)) in str(error.value)


def test_length_is_the_number_of_prompts(prompts: Prompts) -> None:
    assert len(prompts) == 4


def test_a_slice_keeps_pairs_together(prompts: Prompts) -> None:
    part = prompts[1:3]
    assert len(part) == 2
    assert torch.equal(part.xs, prompts.xs[1:3])
    assert torch.equal(part.ys, prompts.ys[1:3])


def test_moving_moves_both(prompts: Prompts) -> None:
    moved = prompts.to("meta")
    assert moved.xs.is_meta
    assert moved.ys.is_meta
    assert not prompts.xs.is_meta


def test_prompts_are_frozen(prompts: Prompts) -> None:
    with pytest.raises(FrozenInstanceError):
        prompts.xs = torch.zeros(4, 3, 2)  # type: ignore[misc]
