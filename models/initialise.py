"""A model's initial weights, from an explicit generator."""

from __future__ import annotations

import math

import torch
from torch import Generator, nn

from .blocks.parameters import initialise_block
from .loops.loop import Loop
from .spec import ModelSpec

_POSITION_STD = 0.02  # as nanoGPT has it


@torch.no_grad()
def initialise(
    loop: Loop, read_in: nn.Module, read_out: nn.Module, generator: Generator, spec: ModelSpec
) -> None:
    """Initialise the loop's weights, then read-in and read-out, if the model has these. Of pairs:
    PyTorch's default for linear layers, uniform within ±1 / sqrt(fan-in). Of a text: normal, with
    the spec's standard deviations; a tied head is the embedding."""
    initialise_loop(loop, generator, spec.position_std)
    if spec.vocabulary:
        for layer, std in ((read_in, spec.embedding_std), (read_out, spec.head_std)):
            for weight in layer.parameters():
                nn.init.normal_(weight, std=std, generator=generator)
        return
    for layer in (read_in, read_out):
        if not isinstance(layer, nn.Linear):
            continue
        bound = 1 / math.sqrt(layer.in_features)
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


@torch.no_grad()
def initialise_loop(loop: Loop, generator: Generator, position_std: float = _POSITION_STD) -> None:
    """Initialise blocks by initialise_block, norms as the identity, positions with std
    `position_std`, and the loop's other parameters by `Loop.initialise`."""
    for name, spec in loop.stacks().items():
        for block in loop.get_submodule(name).children():
            initialise_block(block, spec, generator)
    for module in loop.children():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
    loop.initialise()
    if loop.positions is not None:
        nn.init.normal_(loop.positions, std=position_std, generator=generator)
