"""Linear probes are least squares on what they read, however their prompts come in."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from looplab.probing.probes import LinearProbes, readings

LAYERS, TOKENS, WIDTH, OUTPUTS, PROMPTS = 2, 6, 5, 3, 40
SEEN = torch.arange(TOKENS) < 2 * torch.arange(1, 4)[:, None]
LENGTHS = len(SEEN)
MEAN, LAST = readings(SEEN).split(1)


def batch(seed: int = 0, prompts: int = PROMPTS) -> tuple[Tensor, Tensor]:
    """States [layers, B, S, D], neither centred nor of one size, and targets."""
    draws = torch.Generator().manual_seed(seed)
    states = torch.randn(LAYERS, prompts, TOKENS, WIDTH, generator=draws) * 3 + 2
    return states, torch.randn(prompts, LENGTHS, OUTPUTS, generator=draws) - 1


def solved(states: Tensor, targets: Tensor, weights: Tensor, penalty: float = 0.0) -> LinearProbes:
    probes = LinearProbes(LAYERS, weights, states.shape[-1], OUTPUTS)
    for layer in range(LAYERS):
        probes.add(layer, states[layer], targets)
    probes.solve(penalty)
    return probes


def by_numpy(read: Tensor, target: Tensor, penalty: float) -> NDArray[np.float64]:
    """Ridge with a free intercept, [D + 1, outputs], by rows that stand for the penalty."""
    x, y = read.double().numpy(), target.double().numpy()
    scale = np.sqrt(len(x) * penalty * x.var(0).mean())
    rows = np.vstack([np.c_[x, np.ones(len(x))], np.c_[scale * np.eye(WIDTH), np.zeros(WIDTH)]])
    wanted: NDArray[np.float64] = np.linalg.lstsq(
        rows, np.vstack([y, np.zeros((WIDTH, y.shape[1]))]), rcond=None
    )[0]
    return wanted


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("weights", [LAST, MEAN], ids=["last", "mean"])
def test_the_last_token_and_the_mean_of_what_is_seen_by_numpy(
    weights: Tensor, penalty: float
) -> None:
    states, targets = batch()
    found = solved(states, targets, weights, penalty)
    others, _ = batch(seed=1, prompts=7)
    for layer in range(LAYERS):
        predictions = found.predict(layer, others[layer])
        for length in range(LENGTHS):
            read, asked = (part[layer][:, : 2 * length + 2].double() for part in (states, others))
            if weights is MEAN:
                read, asked = read.mean(1), asked.mean(1)
            else:
                read, asked = read[:, -1], asked[:, -1]
            rows = by_numpy(read, targets[:, length], penalty)
            expected = asked.numpy() @ rows[:-1] + rows[-1]
            np.testing.assert_allclose(predictions[length].numpy(), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_each_output_takes_the_reading_that_tells_more(penalty: float) -> None:
    """By the errors themselves, of both readings apart."""
    states, targets = batch()
    targets[:, 1, 2] += states[1, :, :4, 0].mean(1)
    targets[:, 1, 0] += states[1, :, 3, 0]
    both = solved(states, targets, readings(SEEN), penalty)
    apart = [solved(states, targets, weights, penalty) for weights in (MEAN, LAST)]
    assert both.selection[1][:, 1, 0, 2].tolist() == [1, 0]
    assert both.selection[1][:, 1, 0, 0].tolist() == [0, 1]
    for layer in range(LAYERS):
        found = both.predict(layer, states[layer])
        each = torch.stack([maps.predict(layer, states[layer]) for maps in apart])
        errors = (each - targets.transpose(0, 1)).square().mean(2, keepdim=True)
        assert torch.equal(both.selection[layer].argmax(0), errors.argmin(0))
        expected = torch.where(errors[0] < errors[1], each[0], each[1])
        torch.testing.assert_close(found, expected)
