"""All probes of a run as one batched computation: learned weights over positions, then an MLP.

probes = Probes(layers, seeds, tokens_seen, width, outputs, generator=generator)
for layer, states in enumerate(states_by_layer):
    losses = probes.accumulate(layer, states, targets)
optimizer.step()
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

_CACHED = 64  # prompts at a time on a CPU: intermediate results then stay in its cache


class _Layer(NamedTuple):
    """The parameters of one layer's probes, or their gradients; probes are (length, seed)."""

    scores: Tensor  # [probes, S]
    weight_in: Tensor  # [probes, D, hidden]
    bias_in: Tensor  # [probes, 1, hidden]
    weight_out: Tensor  # [probes, hidden, outputs]
    bias_out: Tensor  # [probes, 1, outputs]


class Probes(nn.Module):
    """One probe for each (layer, length, seed): v̂ = MLP(Σ_s α_s Y_s) with α = softmax(scores) over
    the tokens that its length sees and MLP = Linear(D, hidden)-ReLU-Linear(hidden, outputs).

    (Yang et al., appendix F.) `tokens_seen` is a bool [lengths, S]. Scores are initialised from
    N(0, 1), the MLP as torch.nn.Linear does. `generator`, of the CPU, draws seed by seed: the first
    seeds are the same whatever their number. Raises ValueError for a length that sees no token.
    """

    tokens_seen: Tensor

    def __init__(
        self,
        layers: int,
        seeds: int,
        tokens_seen: Tensor,
        width: int,
        outputs: int,
        hidden: int = 64,
        *,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if not tokens_seen.any(1).all():
            raise ValueError("each length must see at least one token")
        lengths, tokens = tokens_seen.shape
        self.register_buffer("tokens_seen", tokens_seen, persistent=False)
        shape = (layers, lengths, seeds)
        self.scores = nn.Parameter(torch.empty(*shape, tokens, dtype=torch.float32))
        self.weight_in = nn.Parameter(torch.empty(*shape, width, hidden, dtype=torch.float32))
        self.bias_in = nn.Parameter(torch.empty(*shape, 1, hidden, dtype=torch.float32))
        self.weight_out = nn.Parameter(torch.empty(*shape, hidden, outputs, dtype=torch.float32))
        self.bias_out = nn.Parameter(torch.empty(*shape, 1, outputs, dtype=torch.float32))
        bounds = {self.weight_in: width, self.bias_in: width}
        bounds |= {self.weight_out: hidden, self.bias_out: hidden}
        with torch.no_grad():
            for seed in range(seeds):
                # Drawn, then copied: numbers drawn in place depend on the strides.
                like = self.scores[:, :, seed]
                like.copy_(torch.randn(like.shape, generator=generator, dtype=torch.float32))
                for parameter, inputs in bounds.items():
                    like = parameter[:, :, seed]
                    unit = torch.rand(like.shape, generator=generator, dtype=torch.float32)
                    like.copy_((2 * unit - 1) / math.sqrt(inputs))

    @torch.no_grad()
    def predict(self, layer: int, states: Tensor) -> Tensor:
        """Predictions from a layer's states [B, S, D]: [seeds, lengths, B, outputs]."""
        parameters = self._layer(layer)
        tokens = states.to(parameters.scores.dtype).transpose(0, 1).flatten(1)
        inputs = (self._alphas(parameters.scores) @ tokens).unflatten(1, (len(states), -1))
        hidden = torch.baddbmm(parameters.bias_in, inputs, parameters.weight_in).relu_()
        outputs = torch.baddbmm(parameters.bias_out, hidden, parameters.weight_out)
        return self._by_length(outputs).transpose(0, 1)

    @torch.no_grad()
    def accumulate(
        self, layer: int, states: Tensor, targets: Tensor, prompts: int | None = None
    ) -> Tensor:
        """Add to the gradients of a layer's probes; returns their losses [seeds, lengths].

        A probe's loss is the mean squared error over prompts and outputs, its gradient that of its
        own loss. `states` are [B, S, D], `targets` [B, lengths, outputs]; for a part of a batch of
        `prompts`, losses and gradients are the part's share, so that parts add up.
        """
        parameters, gradients = self._layer(layer), self._layer(layer, gradients=True)
        scale = 1 / ((prompts or len(states)) * targets.shape[2])
        alphas = self._alphas(parameters.scores)
        dalphas, losses = torch.zeros_like(alphas), alphas.new_zeros(self.scores.shape[1:3])
        # With tokens as rows, their weighted sum and its gradient are one product for all prompts.
        # Its memory is allocated once: fresh pages can cost more than the products.
        token_count, width = states.shape[1:]
        chunk_size = min(len(states), _CACHED if states.device.type == "cpu" else len(states))
        tokens_memory = alphas.new_empty(token_count * chunk_size * width)
        input_memory = alphas.new_empty(len(alphas) * chunk_size * width)
        for chunk, target_chunk in zip(
            states.split(chunk_size), targets.split(chunk_size), strict=True
        ):
            tokens = _shaped(tokens_memory, token_count, len(chunk), width)
            inputs = _shaped(input_memory, len(alphas), len(chunk), width)
            tokens.copy_(chunk.transpose(0, 1))
            torch.mm(alphas, tokens.flatten(1), out=inputs.flatten(1))
            losses += self._through_mlp(parameters, gradients, inputs, target_chunk, scale)
            dalphas.addmm_(inputs.flatten(1), tokens.flatten(1).T)
        # Through the softmax: a token that is not seen has α = 0, and its score does not change.
        dalphas -= (dalphas * alphas).sum(1, keepdim=True)
        gradients.scores.add_(dalphas * alphas)
        return losses.T

    def _through_mlp(
        self, parameters: _Layer, gradients: _Layer, inputs: Tensor, targets: Tensor, scale: float
    ) -> Tensor:
        """Forward and backward pass of a layer's MLPs, by hand: the losses [lengths, seeds] for
        their `inputs` [probes, B, D], which are overwritten with their gradient."""
        hidden = torch.baddbmm(parameters.bias_in, inputs, parameters.weight_in).relu_()
        error = torch.baddbmm(parameters.bias_out, hidden, parameters.weight_out)
        by_length = self._by_length(error)
        by_length -= targets.transpose(0, 1)[:, None]
        losses = by_length.square().sum((2, 3)).mul_(scale)
        doutputs = error.mul_(2 * scale)
        gradients.weight_out.baddbmm_(hidden.mT, doutputs)
        gradients.bias_out.add_(doutputs.sum(1, keepdim=True))
        dhidden = torch.bmm(doutputs, parameters.weight_out.mT).mul_(hidden > 0)
        gradients.weight_in.baddbmm_(inputs.mT, dhidden)
        gradients.bias_in.add_(dhidden.sum(1, keepdim=True))
        torch.bmm(dhidden, parameters.weight_in.mT, out=inputs)
        return losses

    def _layer(self, layer: int, *, gradients: bool = False) -> _Layer:
        """Views of one layer of the parameters, or of their gradients."""
        tensors: list[Tensor] = []
        for parameter in self.parameters():
            if gradients and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            tensor = parameter.grad if gradients else parameter
            assert tensor is not None
            tensors.append(tensor[layer].flatten(0, 1))
        return _Layer(*tensors)

    def _alphas(self, scores: Tensor) -> Tensor:
        """The weights over the tokens for scores [probes, S]."""
        mask = ~self.tokens_seen[:, None]
        return self._by_length(scores).masked_fill(mask, -math.inf).softmax(-1).flatten(0, 1)

    def _by_length(self, tensor: Tensor) -> Tensor:
        """[probes, …] as [lengths, seeds, …]."""
        return tensor.unflatten(0, self.scores.shape[1:3])


def _shaped(memory: Tensor, *shape: int) -> Tensor:
    """The first numbers of a flat tensor as a view of this shape."""
    return memory[: math.prod(shape)].view(shape)
