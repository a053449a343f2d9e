"""The toy model against a recursion in plain Python and against the numbers of the theorems."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice, product, repeat
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.experiments.near_init import Near
from looplab.experiments.residual_scaling import derivative, layers, mean_cosine, run, toy
from tests.experiments.checks import check_panels

D = 6
# ‖h_R‖/√d of ten other seeds, by loops. If norms explode, means of ten seeds differ by half.
EXPECTED = {
    "deep none": (1.21, 1.48, 2.19, 4.84, 24.7, 605, 3.7e5),
    "deep sqrt": (1.21, 1.24, 1.26, 1.26, 1.27, 1.27, 1.26),
    "deep linear": (1.21, 1.12, 1.06, 1.03, 1.02, 1.01, 1.00),
    "looped none": (1.21, 1.78, 4.51, 34.8, 2.5e3, 1.4e7, 5.9e14),
    "looped sqrt": (1.21, 1.42, 1.88, 2.97, 6.14, 18.4, 92),
    "looped linear": (1.21, 1.22, 1.23, 1.24, 1.24, 1.24, 1.24),
}
POWER = {"none": 0.0, "sqrt": -0.5, "linear": -1.0}  # of ε in R


def plain(weights: list[list[list[float]]], h: list[float], scale: float) -> list[list[float]]:
    """h₀ and what follows it, one layer after another."""
    states = [h]
    for layer in weights:
        active = [max(x, 0.0) for x in h]
        h = [
            x + scale * sum(w * a for w, a in zip(row, active, strict=True))
            for x, row in zip(h, layer, strict=True)
        ]
        states.append(h)
    return states


def drawn(count: int) -> tuple[list[float], list[list[list[float]]]]:
    start, *stack = islice(layers(D, 3), 1 + count)
    return start.tolist(), [layer.tolist() for layer in stack]


def test_layers_have_the_variance_and_the_length_of_the_theorems() -> None:
    start, first, second = islice(layers(200, 1), 3)
    assert start.dtype == first.dtype == torch.float64
    assert float(start.norm()) == pytest.approx(math.sqrt(200))
    assert float(first.var()) == pytest.approx(1 / 200, rel=0.03)
    assert float((first * second).mean() * 200) == pytest.approx(0, abs=0.02)
    assert torch.equal(next(islice(layers(200, 1), 1, None)), first)
    assert not torch.equal(next(islice(layers(200, 2), 1, None)), first)


def test_stacks_are_the_recursion() -> None:
    h, stack = drawn(5)
    start = torch.tensor(h, dtype=torch.float64)
    loops, scales = torch.tensor([1, 3, 5]), torch.tensor([1.0, 0.4, 0.7], dtype=torch.float64)
    for weights in (stack, [stack[0]] * 5):
        tensors = torch.tensor(weights, dtype=torch.float64)
        states = run(tensors, start, loops, scales)
        for row, (count, scale) in enumerate(zip((1, 3, 5), (1.0, 0.4, 0.7), strict=True)):
            expected = plain(weights[:count], h, scale)[-1]
            assert states[row].tolist() == pytest.approx(expected, rel=1e-12)
    assert start.tolist() == h


def test_derivative_is_that_of_the_recursion() -> None:
    h, (layer,) = drawn(1)
    generator = torch.Generator().manual_seed(5)
    signs = torch.randint(2, (D, D), generator=generator).double() * 2 - 1
    start, weights = torch.tensor(h).double(), torch.tensor(layer).double()
    loops, scales = torch.tensor([1, 4]), torch.tensor([1.0, 0.3], dtype=torch.float64)
    found = derivative(weights, signs, start, loops, scales)
    for row, (count, scale) in enumerate(((1, 1.0), (4, 0.3))):
        ends = []
        for eta in (-1e-6, 1e-6):
            moved = (weights + eta / math.sqrt(D) * signs).tolist()
            ends.append(np.array(plain([moved] * count, h, scale)[-1]))
        assert found[row].tolist() == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-5, abs=1e-8)


def test_mean_cosine_is_over_pairs_of_different_increments() -> None:
    h, stack = drawn(3)
    for weights, scale in ((stack, 1.0), ([stack[0]] * 3, 0.25)):
        states = np.array(plain(weights, h, scale))
        steps = np.diff(states, axis=0)
        pairs = [
            steps[i] @ steps[j] / np.linalg.norm(steps[i]) / np.linalg.norm(steps[j])
            for i, j in ((0, 1), (0, 2), (1, 2))
        ]
        tensors = torch.tensor(weights, dtype=torch.float64)
        found = mean_cosine(tensors, torch.tensor(h).double(), 3, scale)
        assert found == pytest.approx(np.mean(pairs))


def test_the_parts_are_put_together_by_name() -> None:
    near = Near(loops=(1, 2, 4), seeds=2)
    result = toy(near, width=D)
    assert toy(near, width=D) == result
    for seed in range(2):
        start, *stack = islice(layers(D, seed), 13)
        for (scaling, power), (column, r) in product(POWER.items(), enumerate((1, 2, 4))):
            for kind, weights in (("deep", stack[:r]), ("looped", [stack[0]] * r)):
                ends = run(weights, start, torch.tensor([r]), _scale(r**power))
                found = result[kind][scaling]["by_seed"][seed][column]
                assert found == pytest.approx(_length(ends))
        # One update of random signs moves one loop by about √(1/2), whatever the scaling.
        assert len({of["by_seed"][seed][0] for of in result["change"].values()}) == 1
        ends = run(stack[:12] * 4, start, torch.tensor([48]), _scale(1 / (4 * math.sqrt(12))))
        found = result["layers"]["12"]["by_seed"][seed][2]
        assert found == pytest.approx(_length(ends))
        cosine = mean_cosine(repeat(stack[0]), start, 16, 1 / 16)
        assert result["cosine"]["looped linear"]["by_seed"][seed] == pytest.approx(cosine)


def _scale(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def _length(ends: Tensor) -> float:
    return float(ends.norm() / math.sqrt(D))


def _within(name: str) -> Callable[[int], tuple[float, float]]:
    """The least and the most that a row's mean may be of what is expected, by loops."""
    if not name.endswith("none"):
        return lambda _: (0.9, 1.1)
    ends = {8: (0.8, 1.2), 16: (0.7, 1.3), 32: (1 / 1.6, 1.6), 64: (1 / 3, 3.0)}
    return lambda r: ends.get(r, (0.9, 1.1))


def _means(curves: dict[str, Any]) -> dict[str, Any]:
    return {name: np.mean(of["by_seed"], axis=0) for name, of in curves.items()}


@pytest.mark.slow
@pytest.mark.parametrize("loops", [(1, 2, 4), Near().loops])
def test_the_table_of_the_theorems(loops: tuple[int, ...]) -> None:
    """All ten seeds at full width, to four loops and whole."""
    result = toy(Near(loops=loops))
    for name, expected in EXPECTED.items():
        stack, scaling = name.split()
        means = _means(result[stack])[scaling]
        for r, value, mean in zip(loops, expected, means, strict=False):
            low, high = _within(name)(r)
            assert low <= mean / value <= high, (name, r, mean)
    cosine = _means(result["cosine"])
    assert cosine["deep none"] == pytest.approx(0, abs=0.01)
    assert cosine["looped none"] == pytest.approx(0.75, abs=0.03)
    assert cosine["looped linear"] == pytest.approx(0.97, abs=0.01)
    # Energies of a deep stack grow by half a layer: the mean of ten seeds is near, by its spread.
    roots = np.sqrt(np.square(result["deep"]["none"]["by_seed"]).mean(0))
    for r, root in zip(loops, roots, strict=True):
        assert root == pytest.approx(1.5 ** (r / 2), rel=0.1 if r < 64 else 0.25)
    change, count = _means(result["change"]), len(loops)
    linear, sqrt = [0.69, 0.71, 0.74, 0.76, 0.77, 0.77, 0.78], [0.69, 1.04, 1.77, 3.5, 8.8, 31, 177]
    assert change["linear"] == pytest.approx(linear[:count], rel=0.1)
    assert change["sqrt"] == pytest.approx(sqrt[:count], rel=0.1)
    # λ/(R √U) keeps the norm of a stack of several layers, whatever R and U.
    for curve in _means(result["layers"]).values():
        assert curve == pytest.approx([1.25] * count, rel=0.05)


def test_the_picture_ends_above_a_thousand_and_its_numbers_do_not() -> None:
    result = toy(Near(loops=(1, 3, 64), seeds=2), width=D)
    assert check_panels(result["panels"]) == ["toy-norm", "toy-change", "toy-layers", "toy-cosines"]
    norm, change, deeper, cosine = result["panels"]
    assert deeper.curves[2].mean == pytest.approx(_means(result["layers"])["12"])
    assert cosine.curves[0].mean == pytest.approx([*_means(result["cosine"]).values()])
    assert (norm.limits, norm.picture, change.picture) == ((0.5, 1e3), "toy", "toy")
    assert [curve.kind for curve in norm.curves] == ["none", "sqrt", "linear"] * 2
    assert norm.curves[0].mean == pytest.approx(_means(result["looped"])["none"])
    assert norm.curves[3].mean == pytest.approx(_means(result["deep"])["none"])
    assert change.curves[1].mean == pytest.approx(_means(result["change"])["sqrt"])
