"""What whitened states are, and that probes can tell the same of them."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from looplab.probing.fit import whitening

LAYERS, PROMPTS, TOKENS, WIDTH = 2, 400, 6, 5


def states(seed: int = 0) -> Tensor:
    """[layers, B, S, D]: centred elsewhere at each position, with very unequal directions."""
    draws = torch.Generator().manual_seed(seed)
    mixing, _ = torch.linalg.qr(torch.randn(LAYERS, 1, WIDTH, WIDTH, generator=draws))
    sizes = torch.tensor([1.0, 2.0, 0.2, 3.0, 1.0])
    means = torch.randn(LAYERS, 1, TOKENS, WIDTH, generator=draws)
    return torch.randn(LAYERS, PROMPTS, TOKENS, WIDTH, generator=draws) * sizes @ mixing + 5 * means


def passes(of: Tensor, parts: int = 1) -> Callable[[], Iterator[tuple[int, slice, Tensor]]]:
    """The states part by part, layer after layer."""
    return lambda: (
        (layer, slice(None), some[layer])
        for some in of.chunk(parts, dim=1)
        for layer in range(len(of))
    )


def test_they_have_no_mean_and_vary_alike_in_all_directions() -> None:
    of = states()
    whiten = whitening(passes(of), LAYERS)
    for layer in range(LAYERS):
        easy = whiten(layer, of[layer])
        torch.testing.assert_close(easy.mean(0), torch.zeros(TOKENS, WIDTH), atol=1e-3, rtol=0)
        rows = easy.flatten(0, 1)
        covariance = rows.T @ rows / len(rows)
        torch.testing.assert_close(covariance, torch.eye(WIDTH), atol=1e-3, rtol=0)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_states_that_are_the_same_in_all_prompts_stay_at_rest(value: float) -> None:
    of = torch.full((1, PROMPTS, TOKENS, WIDTH), value)
    of += value * 1e-7 * torch.randn(of.shape, generator=torch.Generator().manual_seed(0))
    easy = whitening(passes(of), 1)(0, of[0])
    assert easy.abs().max() < 0.1
