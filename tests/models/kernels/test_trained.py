"""Along a training run, at its start, halfway and at its end, gradients are as near as eager's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.optim import Adam

from looplab.models import Model
from tests.models.kernels.small_loops import make_pair, step
from tests.models.kernels.yardstick import assert_each_near
from tests.models.small import Batch, draw_prompts


def train(model: Model, steps: int) -> None:
    """Adam on fresh linear functions."""
    optimizer = Adam(model.parameters(), 3e-3)
    for number in range(steps):
        xs, noise = draw_prompts(16, 6, seed=number)
        ys = (xs * noise[:, :1, None]).sum(2)
        model.zero_grad()
        (model(Batch(xs, ys), 3, 2) - ys).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("steps", [0, 150, 300])
def test_gradients_are_near(device: torch.device, steps: int) -> None:
    _, eager = make_pair(torch.device("cpu"), None)
    train(eager, steps)
    exact = copy.deepcopy(eager).to(device).double()
    kernels, halved = make_pair(device, torch.bfloat16)
    for model in (kernels, halved):
        model.load_state_dict(eager.state_dict())
    ours, theirs, truth = (step(model, 3, 2, 2) for model in (kernels, halved, exact))
    assert_each_near(ours, list(theirs.values()), list(truth.values()))
