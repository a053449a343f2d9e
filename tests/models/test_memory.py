"""What a forward pass keeps for the backward pass depends on the window, not on the loops."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from tests.models.small import draw_prompts, make_model, saved_bytes

LOOPED: list[dict[str, Any]] = [
    {"injection": "add"},
    {"injection": "multiply"},
    {"injection": "add", "n_layer": 2},
]


@pytest.mark.parametrize("changes", LOOPED)
@pytest.mark.parametrize("window", [1, 5, 15])
def test_seventy_loops_keep_as_much_as_twenty(changes: dict[str, Any], window: int) -> None:
    model = make_model(**changes)
    assert saved_bytes(model, 70, window) == saved_bytes(model, 20, window) > 0


@pytest.mark.parametrize("changes", LOOPED)
def test_each_loop_of_the_window_keeps_the_same(changes: dict[str, Any]) -> None:
    model = make_model(**changes)
    kept = [saved_bytes(model, 20, window) for window in range(1, 6)]
    differences = {more - less for less, more in pairwise(kept)}
    assert len(differences) == 1
    # At the least a loop's attention and MLP keep their inputs, 3 * 12 tokens 16 wide in float32.
    assert differences.pop() > 4 * 3 * 12 * 16 * 4


def test_gradients_further_back_keep_more_than_the_window() -> None:
    model = make_model()
    assert saved_bytes(model, 20, 2, 2) < saved_bytes(model, 20, 2, 8)
    assert saved_bytes(model, 70, 2, 8) == saved_bytes(model, 20, 2, 8)


def test_a_tied_model_keeps_all_its_loops() -> None:
    model = make_model("tied")
    kept = [saved_bytes(model, loops, 1, loops) for loops in (4, 8, 12)]
    assert kept[2] - kept[1] == kept[1] - kept[0] > 0


def test_bf16_keeps_no_more_for_more_loops() -> None:
    model = make_model()
    model.compute_dtype = torch.bfloat16
    assert saved_bytes(model, 70, 5) == saved_bytes(model, 20, 5) > 0


def test_evaluation_keeps_nothing() -> None:
    """The window's loops want gradients only where the caller does."""
    with torch.no_grad():
        assert saved_bytes(make_model(), 20, 5) == 0


def test_unrolling_keeps_nothing() -> None:
    model = make_model()
    saved: list[Tensor] = []
    with saved_tensors_hooks(saved.append, lambda _: torch.empty(0)):
        for state, prediction in model.unroll(draw_prompts(), 4):
            assert not state.stream.requires_grad
            assert not prediction.requires_grad
    assert not saved
