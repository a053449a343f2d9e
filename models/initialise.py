"""The reference's initialisation, from an explicit generator (nanoGPT)."""

from __future__ import annotations

import math

import torch
from torch import Generator, nn

from .loop import Loop
from .spec import ModelSpec


@torch.no_grad()
def initialise(
    spec: ModelSpec, loop: Loop, read_in: nn.Linear, read_out: nn.Linear, generator: Generator
) -> None:
    """Inside the loop: weights of std 0.02, or 0.02 / sqrt(2 layers) for those that write to the
    stream, biases 0. Read-in and read-out: PyTorch's default for linear layers, uniform within
    ±1 / sqrt(fan-in)."""
    for name, module in loop.named_modules():
        if isinstance(module, nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, nn.Linear):
            writes = name.endswith(("projection", "contract"))
            std = 0.02 / math.sqrt(2 * spec.n_layer) if writes else 0.02
            nn.init.normal_(module.weight, std=std, generator=generator)
            nn.init.zeros_(module.bias)
    nn.init.normal_(loop.positions, std=0.02, generator=generator)
    for layer in (read_in, read_out):
        bound = 1 / math.sqrt(layer.in_features)
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
