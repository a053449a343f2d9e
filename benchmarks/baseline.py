"""A training step written from the papers: the baseline that needs no checkout of the reference.

Plain PyTorch in fp32 (TF32 products on CUDA, as the reference has it): GPT-2 blocks, a Python loop,
a read-out after every loop, torch's Adam, samplers of a few lines. No part of it is made fast or
slow on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from reloop.conf.schema import Config


class PlainBlock(nn.Module):
    """A GPT-2 layer on [B, S, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gelu = nn.GELU(approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        """The next stream [B, S, width]."""
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).chunk(3, dim=2)
        )
        attention = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(self.gelu(self.expand(self.norm_2(x))))


class PlainModel(nn.Module):
    """A looped transformer with an added prompt, or a standard one, on tokens x₁, y₁, x₂, y₂, …"""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.model.n_embd
        self.looped = config.model.family == "looped"
        self.read_in = nn.Linear(config.task.dims, width)
        self.positions = nn.Parameter(0.02 * torch.randn(2 * config.model.n_positions + 1, width))
        self.blocks = nn.ModuleList(
            PlainBlock(width, config.model.n_head) for _ in range(config.model.n_layer)
        )
        self.norm = nn.LayerNorm(width)
        self.read_out = nn.Linear(width, 1)

    def forward(self, xs: Tensor, ys: Tensor, loops: int, window: int) -> list[Tensor]:
        """Predictions [B, n] of the last `window` loops, for xs [B, n, d] and ys [B, n]; a standard
        model has one."""
        batch, points, dims = xs.shape
        y_tokens = torch.cat((ys[:, :, None], xs.new_zeros(batch, points, dims - 1)), dim=2)
        e = self.read_in(torch.stack((xs, y_tokens), dim=2).view(batch, 2 * points, dims))
        if not self.looped:
            return [self.predict(self.body(e))]
        state, predictions = torch.zeros_like(e), []
        for loop in range(loops):
            if loop < loops - window:
                with torch.no_grad():
                    state = self.body(state + e)
            else:
                state = self.body(state + e)
                predictions.append(self.predict(state))
        return predictions

    def body(self, x: Tensor) -> Tensor:
        """All layers once, [B, S, width] to the same."""
        x = x + self.positions[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def predict(self, stream: Tensor) -> Tensor:
        """Predictions [B, n] from the stream at the x tokens."""
        return self.read_out(stream)[:, ::2, 0]


class Baseline:
    """A model with its optimiser on a device; `step()` is one training step at full size."""

    def __init__(self, config: Config, device: torch.device) -> None:
        self.config = config
        self.model = PlainModel(config).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.training.learning_rate)
        self.generator = Generator(device).manual_seed(config.seed)

    def step(self) -> None:
        """Draw a batch, predict, and take a step of the optimiser."""
        xs, ys = self.sample()
        self.optimizer.zero_grad()
        self.loss(xs, ys).backward()
        self.optimizer.step()

    def sample(self) -> tuple[Tensor, Tensor]:
        """A batch: xs [B, n, d] and ys [B, n]."""
        task, batch = self.config.task, self.config.training.batch_size
        xs = torch.randn(
            batch, task.points, task.dims, generator=self.generator, device=self.generator.device
        )
        return xs, _OUTPUTS[task.name](xs, self.generator, **task.settings)

    def loss(self, xs: Tensor, ys: Tensor) -> Tensor:
        """Mean squared error over the window, the batch and all points."""
        b, T = self.config.loops.b, self.config.loops.T
        predictions = self.model(xs, ys, b, min(b, T))
        return torch.stack([(prediction - ys).square().mean() for prediction in predictions]).mean()


def _normal(like: Tensor, generator: Generator, *shape: int) -> Tensor:
    return torch.randn(like.shape[0], *shape, generator=generator, device=like.device)


def _linear(xs: Tensor, generator: Generator) -> Tensor:
    return (xs @ _normal(xs, generator, xs.shape[2], 1)).squeeze(2)


def _sparse(xs: Tensor, generator: Generator, sparsity: int) -> Tensor:
    weights = _normal(xs, generator, xs.shape[2], 1)
    order = torch.rand(xs.shape[::2], generator=generator, device=xs.device).argsort(1)
    return (xs @ weights.scatter(1, order[:, sparsity:, None], 0.0)).squeeze(2)


def _tree(xs: Tensor, generator: Generator, depth: int) -> Tensor:
    inner = 2**depth - 1
    shape = (xs.shape[0], inner)
    split_dims = torch.randint(xs.shape[2], shape, generator=generator, device=xs.device)
    leaves = _normal(xs, generator, inner + 1)
    node = torch.zeros(xs.shape[:2], dtype=torch.long, device=xs.device)
    for _ in range(depth):
        values = xs.gather(2, split_dims.gather(1, node)[:, :, None]).squeeze(2)
        node = 2 * node + 1 + (values > 0)
    return leaves.gather(1, node - inner)


def _relu(xs: Tensor, generator: Generator, hidden: int) -> Tensor:
    first = _normal(xs, generator, xs.shape[2], hidden)
    second = _normal(xs, generator, hidden, 1)
    return ((xs @ first).relu() @ second).squeeze(2) * math.sqrt(2 / hidden)


_OUTPUTS: dict[str, Callable[..., Tensor]] = {
    "linear": _linear,
    "sparse_linear": _sparse,
    "decision_tree": _tree,
    "relu_network": _relu,
}
