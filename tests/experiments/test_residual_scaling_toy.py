"""The toy model against a recursion in plain Python."""

import math
from itertools import cycle, islice, product, repeat

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.experiments import residual_scaling_toy
from looplab.experiments.near_init import Near
from looplab.experiments.residual_scaling_toy import (
    branches,
    derivative,
    extreme,
    layers,
    mean_cosine,
    run,
    toy,
)
from tests.experiments.checks import check_panels, panels_of

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


def test_a_branch_is_the_mean_of_what_its_layer_adds() -> None:
    h, stack = drawn(2)
    loops, scale = 3, 1 / (3 * math.sqrt(2))
    states = np.array(plain(stack * loops, h, scale))
    added = np.diff(states, axis=0) / scale  # layers in turn, loop by loop
    expected = np.linalg.norm(added.reshape(loops, 2, D).mean(0), axis=1) / math.sqrt(D)
    tensors = [torch.tensor(layer, dtype=torch.float64) for layer in stack]
    found = branches(tensors, torch.tensor(h, dtype=torch.float64), loops).norm(dim=1) / D**0.5
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-12)


@pytest.mark.parametrize("count", [1, 2])
def test_derivative_is_that_of_the_recursion(count: int) -> None:
    """Of one layer and of two, each with signs of its own."""
    h, stack = drawn(count)
    generator = torch.Generator().manual_seed(5)
    signs = torch.randint(2, (count, D, D), generator=generator).double() * 2 - 1
    start, weights = torch.tensor(h).double(), torch.tensor(stack).double()
    steps, scales = torch.tensor([count, 4 * count]), torch.tensor([1.0, 0.3], dtype=torch.float64)
    found = derivative(cycle(weights), cycle(signs), start, steps, scales)
    for row, (loops, scale) in enumerate(((1, 1.0), (4, 0.3))):
        ends = []
        for eta in (-1e-6, 1e-6):
            moved = (weights + eta / math.sqrt(D) * signs).tolist()
            ends.append(np.array(plain(moved * loops, h, scale)[-1]))
        assert found[row].tolist() == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-5, abs=1e-8)


def test_updates_along_a_gradient_grow_like_the_root_of_the_layers() -> None:
    """Signs of a gradient agree between layers, random ones of their own do not; the latter's
    changes are orthogonal (Proposition 7)."""
    width, R = 256, 4
    start, *stack = islice(layers(width, 0), 13)
    generator = torch.Generator().manual_seed(1)
    random = torch.randint(2, (12, width, width), generator=generator).double() * 2 - 1
    loss = torch.randn(width, generator=generator, dtype=torch.float64)
    grown = {}
    for U in (1, 12):
        steps, scale = torch.tensor([R * U]), _scale(1 / (R * math.sqrt(U)))
        weights = [layer.clone().requires_grad_() for layer in stack[:U]]
        h = start
        for layer in weights * R:
            h = h + float(scale) * layer @ h.relu()
        (h @ loss).backward()
        of_gradient = [layer.grad.sign() for layer in weights if layer.grad is not None]
        for name, signs in (
            ("gradient", of_gradient),
            ("same", [random[0]] * U),
            ("own", [*random[:U]]),
        ):
            moved = derivative(cycle(stack[:U]), cycle(signs), start, steps, scale)
            grown[name, U] = float(moved.norm())
    ratios = {name: grown[name, 12] / grown[name, 1] for name in ("gradient", "same", "own")}
    expected = {"gradient": math.sqrt(12), "same": math.sqrt(12), "own": 1.0}
    assert ratios == pytest.approx(expected, rel=0.2)


def test_extreme_gains_of_the_cone_are_those_of_all_its_vectors() -> None:
    """In the plane, where all v ≥ 0 of length 1 can be tried."""
    angles = torch.linspace(0, math.pi / 2, 10_001, dtype=torch.float64)
    vectors = torch.stack((angles.cos(), angles.sin()))
    for seed in range(5):
        _, weights = islice(layers(2, seed), 2)
        gains = (weights @ vectors).norm(dim=0)
        for largest, wanted in ((True, gains.max()), (False, gains.min())):
            starts = torch.eye(2).double() + 0.01
            found = [weights @ extreme(weights, start, largest) for start in starts]
            best = max if largest else min
            assert best(float(each.norm()) for each in found) == pytest.approx(float(wanted), 1e-4)


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
    names = check_panels(panels_of(residual_scaling_toy, result))
    assert names[0] == "toy-norm"
    assert [*result["moved"]] == ["4", "12"]
    for seed in range(2):
        start, *stack = islice(layers(D, seed), 14)
        for (scaling, power), (column, r) in product(POWER.items(), enumerate((1, 2, 4))):
            for kind, weights in (("deep", stack[:r]), ("looped", [stack[0]] * r)):
                ends = run(weights, start, torch.tensor([r]), _scale(r**power))
                found = result[kind][scaling]["by_seed"][seed][column]
                assert found == pytest.approx(_length(ends))
        ends = run(stack[:12] * 4, start, torch.tensor([48]), _scale(1 / (4 * math.sqrt(12))))
        found = result["layers"]["12"]["by_seed"][seed][2]
        assert found == pytest.approx(_length(ends))
        for part in ("same_signs", "own_signs"):
            of_one = result["change"]["linear"]["by_seed"][seed]
            assert result[part]["1"]["by_seed"][seed] == pytest.approx(of_one)
        before, after = (
            branches([first, *stack[1:4]], start, 2) for first in (stack[0], stack[12])
        )
        moves = [_length(move) for move in (after - before)[1:]]
        assert result["moved"]["4"]["by_seed"][seed][1] == pytest.approx(np.mean(moves))
        alike = float(before[0] @ after[0] / (before[0].norm() * after[0].norm()))
        assert result["alike"]["4"]["by_seed"][seed][1] == pytest.approx(alike)
        cosine = mean_cosine(repeat(stack[0]), start, 16, 1 / 16)
        assert result["cosine"]["looped linear"]["by_seed"][seed] == pytest.approx(cosine)


def _scale(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def _length(ends: Tensor) -> float:
    return float(ends.norm() / math.sqrt(D))
