"""The fitted network against one torch.nn model for each prefix of each prompt."""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor, nn

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


def test_first_weights_are_those_of_linear_layers() -> None:
    networks = _Networks.initial(400, 4, 25, Generator().manual_seed(0))
    reference = nn.Linear(4, 25), nn.Linear(25, 1)
    for values, layer in zip(
        ([networks.first], [networks.second, networks.offset]), reference, strict=True
    ):
        bound = layer.in_features**-0.5
        for value in values:
            assert value.abs().max() <= bound
            assert abs(value.mean()) < 0.06 * bound
            # Uniform within the bound, as PyTorch's own weights and biases are.
            assert abs(value.std() / bound - 3**-0.5) < 0.05
    flat = networks.first.flatten()
    assert flat.unique().numel() > 0.99 * flat.numel()  # each network has weights of its own


def test_learns_each_prefix() -> None:
    """It predicts what it was shown, and a new output better than zero does."""
    xs, ys, _ = draw(64, 13)
    shown = np.concatenate([xs[:, :1], xs[:, :-1]], axis=1)  # query k is example k - 1
    fitted = network(xs, ys, shown, steps=150, rate=0.01)[:, 1:8]
    assert np.square(fitted - ys[:, :7]).mean() < 0.01 * np.square(ys[:, :7]).mean()
    new = network(xs, ys, xs, steps=150)
    assert np.square(new - ys)[:, 10:].mean() < 0.4 * np.square(ys[:, 10:]).mean()


def test_a_function_of_the_seed_alone() -> None:
    xs, ys, queries = draw(4, 6)
    state = torch.random.get_rng_state()
    predictions = network(xs, ys, queries, steps=20, seed=1)
    np.testing.assert_array_equal(network(xs, ys, queries, steps=20, seed=1), predictions)
    assert (network(xs, ys, queries, steps=20, seed=2) != predictions)[:, 1:].all()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_later_pairs_and_other_prompts_have_no_part() -> None:
    xs, ys, queries = draw(4, 6)
    predictions = network(xs, ys, queries, steps=20)
    xs[:, 3:], ys[:, 3:], queries[:, 4:] = 7.0, -3.0, 5.0
    np.testing.assert_array_equal(network(xs, ys, queries, steps=20)[:, :4], predictions[:, :4])
    xs[1], ys[1], queries[1] = 7.0, -3.0, 5.0
    others = network(xs, ys, queries, steps=20)[:, :4]
    np.testing.assert_array_equal(others[[0, 2, 3]], predictions[[0, 2, 3], :4])


def test_gradients_are_those_of_autograd() -> None:
    generator = Generator().manual_seed(0)
    networks = _Networks.initial(5, 3, 8, generator)
    inputs, targets = (torch.randn(5, 6, size, generator=generator).squeeze(2) for size in (4, 1))

    def loss(*parameters: Tensor) -> Tensor:
        return (_Networks(*parameters).outputs(inputs)[0] - targets).square().mean(1).sum()

    expected = torch.func.grad(loss, argnums=(0, 1, 2))(*networks)
    for found, true in zip(networks.gradients(inputs, targets), expected, strict=True):
        torch.testing.assert_close(found, true)
