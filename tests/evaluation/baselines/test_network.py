"""The fitted network against one torch.nn model for each prefix of each prompt."""

import numpy as np
import torch
from torch import Generator, nn

from looplab.evaluation.baselines.network import _Networks, network
from looplab.evaluation.bootstrap import Floats
from looplab.tasks import make_task


def draw(batch: int, points: int, dims: int = 3, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    task = make_task("relu_network", dims, settings={"hidden": 4})
    first, second = (
        task.sample(Generator().manual_seed(seed + i), batch, points) for i in range(2)
    )
    return first.xs.double().numpy(), first.ys.double().numpy(), second.xs.double().numpy()


def module(networks: _Networks, prompt: int) -> nn.Sequential:
    """Prompt `prompt`'s network as PyTorch writes it."""
    weights, units = networks.first[prompt], networks.second[prompt]
    inner, outer = nn.Linear(len(weights) - 1, len(units)), nn.Linear(len(units), 1)
    values = (weights[:-1].T, weights[-1], units[None], networks.offset[prompt])
    for parameter, value in zip([*inner.parameters(), *outer.parameters()], values, strict=True):
        parameter.data.copy_(value)
    return nn.Sequential(inner, nn.ReLU(), outer)


def test_plain_training_with_the_same_draws() -> None:
    """The same first weights and minibatches, drawn in the same order from the seed."""
    xs, ys, queries = draw(3, 7)
    predictions = network(xs, ys, queries, hidden=11, steps=30, batch=4, rate=0.02, seed=5)
    assert not predictions[:, 0].any()
    generator = Generator().manual_seed(5)
    inputs, targets, asked = (torch.from_numpy(array).float() for array in (xs, ys, queries))
    for k in range(1, 7):
        first = _Networks.initial(3, 3, 11, generator)
        minibatches = [torch.randperm(k, generator=generator)[:4] for _ in range(30)]
        assert {len(drawn) for drawn in minibatches} == {min(k, 4)}
        for b in range(3):
            model = module(first, b)
            adam = torch.optim.Adam(model.parameters(), lr=0.02)
            for drawn in minibatches:
                adam.zero_grad()
                loss = nn.functional.mse_loss(model(inputs[b, drawn])[:, 0], targets[b, drawn])
                loss.backward()
                adam.step()
            slow = model(asked[b, k]).item()
            np.testing.assert_allclose(predictions[b, k], slow, rtol=1e-6, atol=2e-6)
