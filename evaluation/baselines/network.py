"""A two-layer ReLU network fitted to each prefix by Adam, for all prompts at once.

predictions = network(xs, ys, queries, seed=0)                       # [prompts, n], float64
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from ..bootstrap import Floats


class _Networks(NamedTuple):
    """relu(x W + b)·v + c for each prompt; inputs end in a 1, so that b is a row of W."""

    first: Tensor  # [B, d + 1, hidden]
    second: Tensor  # [B, hidden]
    offset: Tensor  # [B, 1]

    @classmethod
    def initial(cls, prompts: int, dims: int, hidden: int, generator: Generator) -> _Networks:
        """Weights and biases as nn.Linear draws them, uniform within 1 / sqrt(number of inputs)."""

        def uniform(*shape: int, inputs: int) -> Tensor:
            samples = torch.rand(prompts, *shape, generator=generator, dtype=torch.float32)
            return (2 * samples - 1) / math.sqrt(inputs)

        return cls(
            uniform(dims + 1, hidden, inputs=dims),
            uniform(hidden, inputs=hidden),
            uniform(1, inputs=hidden),
        )

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [B, m] for inputs [B, m, d + 1], and the hidden units' [B, m, hidden]."""
        units = torch.bmm(inputs, self.first).relu_()
        # For a single column a product and a sum are four times as fast as a matrix product.
        return (units * self.second[:, None]).sum(2) + self.offset, units

    def gradients(self, inputs: Tensor, targets: Tensor) -> _Networks:
        """Gradients of each prompt's mean squared error over inputs [B, m, d + 1] and targets
        [B, m]."""
        outputs, units = self.outputs(inputs)
        slopes = (outputs - targets) * (2 / targets.shape[1])
        second = torch.bmm(slopes[:, None], units).squeeze(1)
        # A ReLU's derivative is its unit's sign, 0 or 1; in place, as `second` has read the units.
        back = (slopes[:, :, None] * self.second[:, None]).mul_(units.sign_())
        return _Networks(torch.bmm(inputs.mT, back), second, slopes.sum(1, keepdim=True))


@torch.no_grad()
def network(
    xs: Floats,
    ys: Floats,
    queries: Floats,
    *,
    hidden: int = 100,
    steps: int = 1000,
    batch: int = 10,
    rate: float = 5e-3,
    seed: int = 0,
) -> Floats:
    """v·relu(W x + b) + c fitted to each prefix of each prompt; zero without examples.

    `steps` steps of Adam at `rate` on the mean squared error of `batch` examples, drawn without
    replacement, or of all if there are fewer. It is the network of Garg et al. 2022, section 3.3,
    with the steps and minibatches of Yang et al.'s figures. Weights start as nn.Linear's do. Each
    prefix has its own weights and minibatches; a minibatch is the same for all prompts. Random
    numbers depend on the seed and on a prompt's index in xs. In float32.
    """
    generator = Generator().manual_seed(seed)
    inputs, query_inputs = (  # with a 1 appended to each point
        torch.nn.functional.pad(torch.from_numpy(points).float(), (0, 1), value=1.0)
        for points in (xs, queries)
    )
    targets = torch.from_numpy(ys).float()
    predictions = np.zeros_like(ys)
    for k in range(1, ys.shape[1]):
        networks = _Networks.initial(len(xs), xs.shape[2], hidden, generator)
        # One optimiser for all prompts: Adam works number by number, so that none sees another's.
        adam = torch.optim.Adam(networks, lr=rate, fused=True)
        for _ in range(steps):
            minibatch = torch.randperm(k, generator=generator)[:batch]
            gradients = networks.gradients(inputs[:, minibatch], targets[:, minibatch])
            for weights, gradient in zip(networks, gradients, strict=True):
                weights.grad = gradient
            adam.step()
        predictions[:, k] = networks.outputs(query_inputs[:, k : k + 1])[0].squeeze(1).numpy()
    return predictions
