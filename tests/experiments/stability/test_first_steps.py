"""The first optimiser steps, done again by hand; and the targets at initialisation and step 1."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from reloop.experiments.stability.first_steps import FirstSteps, all_first_steps, first_steps
from reloop.experiments.stability.near_init import Stack, TokenModel, token_model
from reloop.experiments.stability.settings import INITS, SCALINGS, Init
from reloop.experiments.stability.tables import Floats, slopes

SETTING = Init(1, 0.5, 0.1, 1e-3)
LOOPS = (1, 2, 4, 8, 16, 32, 64)


def rms(x: Tensor) -> float:
    return float(x.detach().double().square().mean().sqrt())


def adam_step(model: TokenModel, moments: list[tuple[Tensor, Tensor]], step: int) -> None:
    """AdamW's update without decay, written out."""
    with torch.no_grad():
        for parameter, (first, second) in zip(model.parameters(), moments, strict=True):
            gradient = parameter.grad
            assert gradient is not None
            first.mul_(0.9).add_(0.1 * gradient)
            second.mul_(0.95).add_(0.05 * gradient**2)
            mean, square = first / (1 - 0.9**step), second / (1 - 0.95**step)
            parameter.sub_(1e-3 * mean / (square.sqrt() + 1e-8))


@pytest.mark.parametrize("shared", [True, False])
def test_steps_are_those_of_adamw(shared: bool) -> None:
    stack = Stack(2, shared, "linear")
    found = first_steps(SETTING, stack, seed=4, steps=3)
    model, tokens = token_model(SETTING, stack, seed=4)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    outputs = [model(tokens)]
    for step in (1, 2, 3):
        model.zero_grad()
        model.loss(outputs[-1][1], tokens).backward()
        adam_step(model, moments, step)
        outputs.append(model(tokens))
    raws, norms = zip(*outputs, strict=True)
    assert found.norm.tolist() == pytest.approx([rms(raw) for raw in raws], rel=1e-4)
    for values, states in ((found.raw, raws), (found.normed, norms)):
        moved = [rms(b - a) for a, b in pairwise(states)]
        assert values.tolist() == pytest.approx(moved, rel=1e-4)


def test_seeds_are_an_axis_of_each_task() -> None:
    stacks = [Stack(1, True, "none"), Stack(3, False, "sqrt")]
    tasks = [(SETTING, stacks[0], 2), (SETTING, stacks[1], 1)]
    found = all_first_steps(tasks, range(5, 7), "test")
    assert [[part.shape for part in each] for each in found] == [
        [(2, 3), (2, 2), (2, 2)],
        [(2, 2), (2, 1), (2, 1)],
    ]
    for (init, stack, steps), runs in zip(tasks, found, strict=True):
        again = first_steps(init, stack, seed=6, steps=steps)
        for part, one in zip(runs, again, strict=True):
            assert part[1].tolist() == one.tolist()


def at_step_1(name: str) -> dict[str, list[FirstSteps]]:
    """Ten seeds at each number of loops, by scaling."""
    tasks = [(INITS[name], Stack(r, True, s), 1) for s in SCALINGS for r in LOOPS]
    found = iter(all_first_steps(tasks, range(10), name))
    return {s: [next(found) for _ in LOOPS] for s in SCALINGS}


def change(runs: list[FirstSteps], name: str) -> Floats:
    """The mean change by step 1, by loops."""
    return np.array([getattr(run, name)[:, 0].mean() for run in runs])


def spread(values: Floats) -> float:
    """Of those from four loops on."""
    return float(values[2:].max() / values[2:].min())


@pytest.mark.slow
def test_weak_branches_obey_the_power_laws() -> None:
    raw = {scaling: change(runs, "raw") for scaling, runs in at_step_1("weak").items()}
    assert slopes(LOOPS, raw["none"], 4) == pytest.approx(1, abs=0.15)
    assert slopes(LOOPS, raw["sqrt"], 4) == pytest.approx(0.5, abs=0.15)
    assert spread(raw["linear"]) < 1.2


@pytest.mark.slow
def test_strong_branches_need_the_linear_scaling() -> None:
    found = at_step_1("strong")
    start = {s: [run.norm[:, 0].mean() for run in runs] for s, runs in found.items()}
    ratio = {scaling: norms[-1] / norms[0] for scaling, norms in start.items()}
    assert max(start["linear"]) / min(start["linear"]) < 1.5
    assert ratio["sqrt"] > 3
    assert ratio["none"] > 15
    normed = {scaling: change(runs, "normed") for scaling, runs in found.items()}
    assert slopes(LOOPS, normed["none"], 4) == pytest.approx(1, abs=0.2)
    assert slopes(LOOPS, normed["sqrt"], 4) == pytest.approx(0.5, abs=0.2)
    assert spread(normed["linear"]) < 2
