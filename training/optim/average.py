"""The exponential moving average of a model's weights, which replaces them in evaluations.

average = WeightAverage(model, decay=0.997)
average.update(number, bad)               # after each step
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_PREFIX = "average."


class WeightAverage:
    """average ← average + (1 - decay) (weights - average) after each step (Polyak & Juditsky 1992,
    in the form of Izmailov et al. 2018's successors): it has the noise of a decayed rate without a
    decay of the rate.

    The decay is at most n / (n + 9) after n steps, so that the initial weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.names = [name for name, _ in model.named_parameters()]
        self.weights = list(model.parameters())
        self.averages = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def update(self, number: Tensor, bad: Tensor) -> None:
        """Update the averages with the weights after step `number` [], counted from 1, unless `bad`
        []. Does not wait for the device."""
        rate = 1 - (number / (number + 9)).clamp(max=self.decay)
        rate = torch.where(bad, 0.0, rate).float()
        moves = torch._foreach_sub([weight.detach() for weight in self.weights], self.averages)
        torch._foreach_mul_(moves, rate)
        torch._foreach_add_(self.averages, moves)

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Copy the averages to the model's weights."""
        for weight, average in zip(self.weights, self.averages, strict=True):
            weight.copy_(average)

    def state(self) -> dict[str, Tensor]:
        """The averages, by names that begin with `average.`."""
        return {
            _PREFIX + name: average for name, average in zip(self.names, self.averages, strict=True)
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a copy of what `state` returned; KeyError for a missing name."""
        for name, average in zip(self.names, self.averages, strict=True):
            average.copy_(tensors[_PREFIX + name])
