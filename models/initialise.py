"""The reference's initialisation, from an explicit generator (nanoGPT; spec 1.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Generator, nn

if TYPE_CHECKING:
    from .model import Model


@torch.no_grad()
def initialise(model: Model, generator: Generator) -> None:
    """Inside the loop: weights of std 0.02, or 0.02 / sqrt(2 layers) for those that write to the
    stream, biases 0. Read-in and read-out: PyTorch's default for linear layers, uniform within
    ±1 / sqrt(fan-in)."""
    spec = model.spec
    for name, module in model.loop.named_modules():
        if isinstance(module, nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, nn.Linear):
            writes = name.endswith(("projection", "contract"))
            std = 0.02 / math.sqrt(2 * spec.n_layer) if writes else 0.02
            nn.init.normal_(module.weight, std=std, generator=generator)
            nn.init.zeros_(module.bias)
    nn.init.normal_(model.loop.positions, std=spec.position_std, generator=generator)
    for layer in (model.read_in, model.read_out):
        bound = 1 / math.sqrt(layer.in_features)
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    if spec.read_in_std:
        nn.init.normal_(model.read_in.weight, std=spec.read_in_std, generator=generator)
