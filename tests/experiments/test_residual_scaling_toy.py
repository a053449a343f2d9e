"""The toy model against a recursion in plain Python."""

import math
from itertools import islice, product, repeat

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.experiments.near_init import Near
from looplab.experiments.residual_scaling_toy import derivative, layers, mean_cosine, run, toy

D = 6
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
