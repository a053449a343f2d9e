"""Batched probes are separate modules side by side; they find what is there to see."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Adam

from looplab.probing.probes import Probes

LAYERS, SEEDS, TOKENS, WIDTH, OUTPUTS, HIDDEN = 2, 3, 6, 5, 4, 7
SEEN = torch.arange(TOKENS) < 2 * torch.arange(1, 4)[:, None]
LENGTHS = len(SEEN)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small(seeds: int = SEEDS, seed: int = 0) -> Probes:
    return Probes(LAYERS, seeds, SEEN, WIDTH, OUTPUTS, HIDDEN, generator=generator(seed))


def batch(seed: int, prompts: int = 11) -> tuple[list[Tensor], Tensor]:
    """States of each layer, and targets."""
    draws = generator(seed)
    states = [torch.randn(prompts, TOKENS, WIDTH, generator=draws) for _ in range(LAYERS)]
    return states, torch.randn(prompts, LENGTHS, OUTPUTS, generator=draws)


class Separate(nn.Module):
    """One probe alone, which is given the tokens it sees and no others."""

    def __init__(self, probes: Probes, layer: int, length: int, seed: int) -> None:
        super().__init__()
        at = (layer, length, seed)
        self.seen = probes.tokens_seen[length]
        self.scores = nn.Parameter(probes.scores.detach()[at][self.seen].clone())
        self.mlp = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTPUTS))
        with torch.no_grad():
            _, weight_in, bias_in, weight_out, bias_out = (p[at] for p in probes.parameters())
            tensors = (weight_in.T, bias_in[0], weight_out.T, bias_out[0])
            for parameter, tensor in zip(self.mlp.parameters(), tensors, strict=True):
                parameter.copy_(tensor)

    def forward(self, states: Tensor) -> Tensor:
        weights = self.scores.softmax(0)
        return self.mlp((states[:, self.seen] * weights[:, None]).sum(1))

    def gradients(self) -> list[Tensor]:
        """In the order and shape of the batched ones, scores over seen tokens only."""
        found = [parameter.grad for parameter in self.parameters()]
        scores, weight_in, bias_in, weight_out, bias_out = (t for t in found if t is not None)
        return [scores, weight_in.T, bias_in[None], weight_out.T, bias_out[None]]


def each(probes: Probes) -> Iterable[tuple[tuple[int, int, int], Separate]]:
    for layer in range(LAYERS):
        for length in range(LENGTHS):
            for seed in range(probes.scores.shape[2]):
                yield (layer, length, seed), Separate(probes, layer, length, seed)


def assert_same(probes: Probes, separate: Separate, at: tuple[int, int, int]) -> None:
    for parameter, expected in zip(probes.parameters(), separate.gradients(), strict=True):
        assert parameter.grad is not None
        found = parameter.grad[at]
        if found.dim() == 1:
            assert not found[~separate.seen].any()
            found = found[separate.seen]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def trained(probes: Probes, adam: Adam, states: Sequence[Tensor], targets: Tensor) -> Tensor:
    """The losses before a step on the states of each layer, [layers, seeds, lengths]."""
    losses = [probes.accumulate(layer, part, targets) for layer, part in enumerate(states)]
    adam.step()
    adam.zero_grad(set_to_none=False)
    return torch.stack(losses)


def test_losses_and_gradients_are_those_of_separate_modules() -> None:
    """Also of so many prompts that they are taken in parts, the last of them smaller."""
    probes, (states, targets) = small(), batch(1, 150)
    losses = [probes.accumulate(layer, states[layer], targets) for layer in range(LAYERS)]
    for (layer, length, seed), separate in each(probes):
        loss = (separate(states[layer]) - targets[:, length]).square().mean()
        loss.backward()
        torch.testing.assert_close(losses[layer][seed, length], loss.detach())
        assert_same(probes, separate, (layer, length, seed))


def test_a_probe_sees_no_token_beyond_its_length() -> None:
    probes, (states, targets) = small(), batch(1)
    seen, changed = probes.predict(0, states[0]), states[0].clone()
    changed[:, 2:] += 1
    now = probes.predict(0, changed)
    assert torch.equal(now[:, 0], seen[:, 0])
    assert (now[:, 1:] - seen[:, 1:]).abs().min() > 0
    probes.accumulate(0, states[0], targets)
    gradient = probes.scores.grad
    assert gradient is not None
    assert torch.equal((gradient[0] != 0).any(1), SEEN)


def test_a_planted_signal_is_found_and_noise_is_not() -> None:
    """Token 3 of the second layer holds the target: length 0 does not see it."""
    draws = generator(3)
    hidden_map = torch.randn(OUTPUTS, WIDTH, generator=draws)

    def planted(prompts: int) -> tuple[list[Tensor], Tensor]:
        states = torch.randn(LAYERS, prompts, TOKENS, WIDTH, generator=draws)
        target = torch.randn(prompts, OUTPUTS, generator=draws)
        states[1, :, 3] = target @ hidden_map
        return list(states), target[:, None].expand(-1, LENGTHS, -1)

    probes = Probes(LAYERS, 2, SEEN, WIDTH, OUTPUTS, 32, generator=generator(4))
    adam = Adam(probes.parameters(), lr=1e-2, fused=True)
    for _ in range(400):
        trained(probes, adam, *planted(64))
    states, targets = planted(1000)
    errors = torch.stack(
        [
            (probes.predict(layer, states[layer]) - targets.transpose(0, 1)).square().mean((2, 3))
            for layer in range(LAYERS)
        ]
    )
    assert errors[1, :, 1:].max() < 0.1
    assert errors[0].min() > 0.95  # the target's variance is 1
    assert errors[1, :, 0].min() > 0.95
    weights = probes.scores.detach()[1, 1:].masked_fill(~SEEN[1:, None], -math.inf).softmax(-1)
    assert weights[..., 3].min() > 0.8
