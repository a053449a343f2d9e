"""Scaled residual branches and the un-normed loop on kernels against eager ones; other loops are
eager's, and a line says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from looplab.models.kernels import segment
from tests.models.kernels.small_loops import make_pair, prompts_for
from tests.models.kernels.test_fallback import assert_eager
from tests.models.kernels.test_segment import check, in_both_precisions
from tests.models.small import WAYS

UNNORMED: dict[str, Any] = {"injection": "none", "norm": "at_readout"}
# shape, loops, window, grad_loops
CASES: list[tuple[dict[str, Any], int, int, int]] = [
    ({"injection": "add", "residual_scaling": "linear", "loops": 2}, 3, 2, 2),
    ({"injection": "multiply", "residual_scaling": "sqrt", "loops": 2}, 2, 1, 2),
    ({"family": "tied", "residual_scaling": "factored", "loops": 2, "n_layer": 2}, 2, 1, 2),
    ({"family": "standard", "residual_scaling": "sqrt"}, 3, 1, 3),
    (UNNORMED, 3, 2, 2),
    (UNNORMED | {"residual_scaling": "linear", "loops": 3}, 3, 3, 3),
    (UNNORMED | {"residual_scaling": "factored", "loops": 2, "n_layer": 2}, 3, 1, 2),
]


@pytest.fixture
def on_kernels(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Whatever eager serves, of which a line says so, is a failure."""
    segment._say.cache_clear()
    yield
    assert not capsys.readouterr().out


@pytest.mark.usefixtures("on_kernels")
@pytest.mark.parametrize(
    ("dtype", "changes", "loops", "window", "grad_loops"), in_both_precisions(CASES)
)
def test_scaled_loops_and_all_gradients_are_near(
    device: torch.device,
    dtype: torch.dtype | None,
    changes: dict[str, Any],
    loops: int,
    window: int,
    grad_loops: int,
) -> None:
    check(device, dtype, changes, loops, window, grad_loops)


@pytest.mark.usefixtures("on_kernels")
def test_an_unnormed_loop_unrolled(device: torch.device) -> None:
    """The stream that runs on is what the next step reads, and both are one."""
    kernels, eager = make_pair(device, None, **UNNORMED, residual_scaling="linear", loops=3)
    steps = zip(*(m.unroll(prompts_for(m), 3) for m in (kernels, eager)), strict=True)
    for (ours, prediction), (theirs, expected) in steps:
        torch.testing.assert_close(ours.stream, theirs.stream, rtol=1e-4, atol=1e-5)
        assert torch.equal(ours.raw, ours.stream)
        torch.testing.assert_close(prediction, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("FLT", "no kernels for a ConnectedLoop of Block"),
        ("recurrent, add", "no kernels for a RecurrentLoop of Block"),
        ("unnormed, prelude", "no kernels for a RecurrentLoop of Block"),
        ("shared, llama", "no kernels for a SharedLoop of PreNormBlock"),
        ("unnormed, add", "no kernels for a RecurrentLoop of PreNormBlock"),
    ],
)
def test_other_loops_and_blocks_are_eager_s(
    device: torch.device,
    capsys: pytest.CaptureFixture[str],
    name: str,
    reason: str,
) -> None:
    segment._say.cache_clear()
    assert_eager(make_pair(device, None, **WAYS[name]), reason, capsys)
    segment._say.cache_clear()
