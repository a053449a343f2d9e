"""The probes of a run, those of all layers, lengths and seeds as one batched computation.

Some are trained: learned weights over positions, then an MLP. The others are linear, and are solved
in closed form.

probes = Probes(layers, seeds, tokens_seen, width, outputs, generator=generator)
linear = LinearProbes(layers, readings(tokens_seen), width, outputs)
for layer, states in enumerate(states_by_layer):
    losses = probes.accumulate(layer, states, targets)
    linear.add(layer, states, targets)
optimizer.step()
linear.solve(penalty)
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

_CACHED = 64  # prompts at a time on a CPU: intermediate results then stay in its cache


class Probes(nn.Module):
    """One probe for each (layer, length, seed): v̂ = MLP(Σ_s α_s Y_s) with α = softmax(scores) over
    the tokens that its length sees and MLP = Linear(D, hidden)-ReLU-Linear(hidden, outputs).

    (Yang et al., appendix F.) `tokens_seen` is a bool [lengths, S], of at least one token each.
    Scores are initialised from N(0, 1), the MLP as torch.nn.Linear does. `generator`, of the CPU,
    draws seed by seed: the first seeds are the same whatever their number.
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
        lengths, tokens = tokens_seen.shape
        self.register_buffer("tokens_seen", tokens_seen, persistent=False)

        def parameter(*shape: int) -> nn.Parameter:
            shape = (layers, lengths, seeds, *shape)
            return nn.Parameter(torch.empty(shape, dtype=torch.float32))

        self.scores = parameter(tokens)
        self.weight_in = parameter(width, hidden)
        self.bias_in = parameter(1, hidden)
        self.weight_out = parameter(hidden, outputs)
        self.bias_out = parameter(1, outputs)
        inputs = (None, width, width, hidden, hidden)
        with torch.no_grad():
            for seed in range(seeds):
                for tensor, number in zip(self.parameters(), inputs, strict=True):
                    draw = torch.rand if number else torch.randn
                    shape = tensor[:, :, seed].shape
                    # Drawn, then copied: numbers drawn in place depend on the strides.
                    drawn = draw(shape, generator=generator, dtype=torch.float32)
                    tensor[:, :, seed] = (2 * drawn - 1) / math.sqrt(number) if number else drawn

    @torch.no_grad()
    def predict(self, layer: int, states: Tensor) -> Tensor:
        """Predictions from a layer's states [B, S, D]: [seeds, lengths, B, outputs]."""
        scores, weight_in, bias_in, weight_out, bias_out = self._of_layer(layer)
        tokens = states.to(scores.dtype).transpose(0, 1).flatten(1)
        inputs = (self._alphas(scores) @ tokens).unflatten(1, (len(states), -1))
        hidden = torch.baddbmm(bias_in, inputs, weight_in).relu_()
        return self._by_length(torch.baddbmm(bias_out, hidden, weight_out)).transpose(0, 1)

    @torch.no_grad()
    def accumulate(
        self, layer: int, states: Tensor, targets: Tensor, prompts: int | None = None
    ) -> Tensor:
        """Add to the gradients of a layer's probes; returns their losses [seeds, lengths].

        A probe's loss is the mean squared error over prompts and outputs, its gradient that of its
        own loss. `states` are [B, S, D], `targets` [B, lengths, outputs]; for a part of a batch of
        `prompts`, losses and gradients are the part's share, so that parts add up.
        """
        scores, *mlp = self._of_layer(layer)
        score_gradients, *mlp_gradients = self._of_layer(layer, gradients=True)
        scale = 1 / ((prompts or len(states)) * targets.shape[2])
        alphas = self._alphas(scores)
        dalphas = torch.zeros_like(alphas)
        losses = alphas.new_zeros(self.scores.shape[1:3])
        # With tokens as rows, their weighted sum and its gradient are one product for all prompts.
        chunk_size = _CACHED if states.device.type == "cpu" else len(states)
        for chunk, wanted in zip(states.split(chunk_size), targets.split(chunk_size), strict=True):
            tokens = chunk.transpose(0, 1).flatten(1)
            inputs = (alphas @ tokens).unflatten(1, (len(chunk), -1))
            losses += self._through_mlp(mlp, mlp_gradients, inputs, wanted, scale)
            # `inputs` holds its own gradient by now: `_through_mlp` has overwritten it.
            dalphas.addmm_(inputs.flatten(1), tokens.T)
        # Through the softmax: a token that is not seen has α = 0, and its score does not change.
        dalphas -= (dalphas * alphas).sum(1, keepdim=True)
        score_gradients.add_(dalphas * alphas)
        return losses.T

    def _through_mlp(
        self,
        mlp: Sequence[Tensor],
        gradients: Sequence[Tensor],
        inputs: Tensor,
        targets: Tensor,
        scale: float,
    ) -> Tensor:
        """Forward and backward pass of a layer's MLPs, by hand: the losses [lengths, seeds] for
        their `inputs` [probes, B, D], which are overwritten with their gradient."""
        weight_in, bias_in, weight_out, bias_out = mlp
        dweight_in, dbias_in, dweight_out, dbias_out = gradients
        hidden = torch.baddbmm(bias_in, inputs, weight_in).relu_()
        error = torch.baddbmm(bias_out, hidden, weight_out)
        by_length = self._by_length(error)
        # A view: `error`, so far the outputs, becomes the error too.
        by_length -= targets.transpose(0, 1)[:, None]
        losses = by_length.square().sum((2, 3)).mul_(scale)
        # The derivative of scale · Σ error².
        doutputs = error.mul_(2 * scale)
        dweight_out.baddbmm_(hidden.mT, doutputs)
        dbias_out.add_(doutputs.sum(1, keepdim=True))
        dhidden = torch.bmm(doutputs, weight_out.mT).mul_(hidden > 0)
        dweight_in.baddbmm_(inputs.mT, dhidden)
        dbias_in.add_(dhidden.sum(1, keepdim=True))
        torch.bmm(dhidden, weight_in.mT, out=inputs)
        return losses

    def _of_layer(self, layer: int, *, gradients: bool = False) -> list[Tensor]:
        """Views [probes, …] of one layer of the parameters, or of their gradients: the scores, and
        weight and bias into and out of the hidden units; probes are (length, seed)."""
        tensors: list[Tensor] = []
        for parameter in self.parameters():
            if gradients and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            tensor = parameter.grad if gradients else parameter
            assert tensor is not None
            tensors.append(tensor[layer].flatten(0, 1))
        return tensors

    def _alphas(self, scores: Tensor) -> Tensor:
        """The weights over the tokens for scores [probes, S]."""
        mask = ~self.tokens_seen[:, None]
        return self._by_length(scores).masked_fill(mask, -math.inf).softmax(-1).flatten(0, 1)

    def _by_length(self, tensor: Tensor) -> Tensor:
        """[probes, …] as [lengths, seeds, …]."""
        return tensor.unflatten(0, self.scores.shape[1:3])


def readings(tokens_seen: Tensor) -> Tensor:
    """The two inputs of linear probes, as weights over tokens [2, lengths, S]: the mean of the
    tokens that each length sees, and the last of them; `tokens_seen` is a bool [lengths, S].

    A sum over pairs, such as XᵀY, can be stored at all of them, each pair's term at its own tokens.
    A function of all pairs can, under a causal mask, be at the last token only.
    """
    mask = tokens_seen.double()
    positions = torch.arange(tokens_seen.shape[1], device=tokens_seen.device)
    last = (positions * tokens_seen).argmax(1)
    # One 1 in each row of [lengths, S].
    is_last = positions == last[:, None]
    return torch.stack((mask / mask.sum(1, keepdim=True), is_last.double()))


class LinearProbes:
    """One linear probe for each (layer, length) and each of several readings Σ_s weights_s Y_s,
    `weights` being [readings, lengths, S]: target ≈ (Σ_s weights_s Y_s) @ map + intercept, with the
    reading that tells most of each output. Batches are added to normal equations, in float64.

    Solved, it has for each layer `maps` [readings, lengths, D, outputs], and `intercepts` and
    `selection` (1 or 0) [readings, lengths, 1, outputs].
    """

    def __init__(self, layers: int, weights: Tensor, width: int, outputs: int) -> None:
        self.weights = weights.double()
        readings, lengths, _ = weights.shape
        zeros = self.weights.new_zeros
        self._counts = [0] * layers
        self._sums = zeros(layers, readings, lengths, 1, width)
        self._products = zeros(layers, readings, lengths, width, width)
        self._target_sums = zeros(layers, lengths, 1, outputs)
        self._target_products = zeros(layers, readings, lengths, width, outputs)
        self.maps: list[Tensor] = []
        self.intercepts: list[Tensor] = []
        self.selection: list[Tensor] = []

    def add(self, layer: int, states: Tensor, targets: Tensor) -> None:
        """Add a layer's states [B, S, D] with their targets [B, lengths, outputs] to the sums."""
        features = self._read(states)
        values = targets.double().transpose(0, 1)
        self._counts[layer] += len(states)
        self._sums[layer] += features.sum(-2, keepdim=True)
        self._products[layer] += features.mT @ features
        self._target_sums[layer] += values.sum(1, keepdim=True)
        self._target_products[layer] += features.mT @ values

    def solve(self, penalty: float) -> None:
        """Find the maps with the least mean squared error + penalty · v · ‖map‖². v is the mean
        variance of the probe's inputs: a penalty means the same at every layer, whatever the size
        of its states. The intercept is not penalised. If several maps are optimal (possible at
        penalty 0), the smallest. The selected reading has the least error on the added states."""
        for layer, count in enumerate(self._counts):
            mean = self._sums[layer] / count
            target_mean = self._target_sums[layer] / count
            covariance = self._products[layer] / count - mean.mT @ mean
            cross = self._target_products[layer] / count - mean.mT @ target_mean
            # Of centred inputs and targets: the intercept, added last, is not penalised.
            penalised = covariance.clone()
            variances = penalised.diagonal(dim1=-2, dim2=-1)  # a view: the penalty goes into it
            variances += penalty * variances.mean(-1, keepdim=True)
            solution = torch.linalg.pinv(penalised, hermitian=True) @ cross
            # The squared error that a map b saves: 2 b·c − bᵀ C b.
            explained = (solution * (2 * cross - covariance @ solution)).sum(-2, keepdim=True)
            best = explained.argmax(0, keepdim=True)
            self.maps.append(solution)
            self.intercepts.append(target_mean - mean @ solution)
            self.selection.append(torch.zeros_like(explained).scatter_(0, best, 1.0))

    def predict(self, layer: int, states: Tensor) -> Tensor:
        """Predictions from a layer's states [B, S, D]: [lengths, B, outputs]."""
        predictions = self._read(states) @ self.maps[layer] + self.intercepts[layer]
        return (predictions * self.selection[layer]).sum(0)

    def _read(self, states: Tensor) -> Tensor:
        """Σ_s weights_s Y_s of states [B, S, D], in float64: [readings, lengths, B, D]."""
        return torch.einsum("ris,bsd->ribd", self.weights, states.double())
