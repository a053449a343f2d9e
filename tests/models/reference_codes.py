"""The reference codes' models as plain functions of their state dicts, with random weights.

weights = garg_weights(n_layer=3)
predictions = predict(weights, prompts, loops=1)
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tests.models.small import DIMS, Batch

HEADS = 2
_WIDTH = 16
_LINEAR = {"attn.c_attn": (16, 48), "attn.c_proj": (16, 16), "mlp.c_fc": (16, 64)}
_LINEAR |= {"mlp.c_proj": (64, 16)}


def leiay_weights(
    n_layer: int = 1, n_positions: int = 8, seed: int = 0, outputs: int = 1
) -> dict[str, Tensor]:
    """As Leiay/looped_transformer stores them: nanoGPT's backbone, matrices [out, in]. A classifier
    has two outputs."""
    rows = 2 * n_positions + 1
    return _weights("_backbone.transformer.", n_layer, rows, seed, turned=True, outputs=outputs)


def garg_weights(n_layer: int = 3, n_positions: int = 8, seed: int = 0) -> dict[str, Tensor]:
    """As dtsip/in-context-learning stores them: Hugging Face's GPT2Model, whose Conv1D matrices
    are [in, out], with the unused table of words and an older version's masks."""
    weights = _weights("_backbone.", n_layer, 2 * n_positions, seed, turned=False)
    weights["_backbone.wte.weight"] = torch.full((5, _WIDTH), math.nan)
    for layer in range(n_layer):
        mask = torch.ones(2 * n_positions, 2 * n_positions, dtype=torch.uint8).tril()
        weights[f"_backbone.h.{layer}.attn.bias"] = mask[None, None]
        weights[f"_backbone.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return weights


def predict(
    weights: Mapping[str, Tensor], prompts: Batch, loops: int, injection: str = "none"
) -> Tensor:
    """Predictions [B, n], or logits [B, n, 2], after so many passes through the whole backbone; a
    standard model's are those of one, a tied model's of several without injection."""
    tokens = torch.zeros(*prompts.xs.shape[:1], 2 * prompts.xs.shape[1], DIMS)
    tokens[:, 0::2], tokens[:, 1::2, 0] = prompts.xs, prompts.ys
    embeds = tokens @ weights["_read_in.weight"].T + weights["_read_in.bias"]
    z = {"none": embeds, "add": 0 * embeds, "multiply": embeds**0}[injection]
    for _ in range(loops):
        into = {"none": z, "add": z + embeds, "multiply": z * embeds}[injection]
        z = _backbone(weights, into)
    predictions = z @ weights["_read_out.weight"].T + weights["_read_out.bias"]
    return predictions[:, 0::2].squeeze(-1)


def _weights(
    prefix: str, n_layer: int, rows: int, seed: int, turned: bool, outputs: int = 1
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, around: float = 0.0) -> Tensor:
        return around + 0.3 * torch.randn(*shape, generator=generator)

    weights = {"_read_in.weight": draw(_WIDTH, DIMS), "_read_in.bias": draw(_WIDTH)}
    weights[f"{prefix}wpe.weight"] = draw(rows, _WIDTH)
    norms = [f"{prefix}ln_f"]
    for layer in range(n_layer):
        name = f"{prefix}h.{layer}."
        norms += [f"{name}ln_1", f"{name}ln_2"]
        for part, (rows_in, rows_out) in _LINEAR.items():
            matrix = draw(rows_in, rows_out)
            weights[f"{name}{part}.weight"] = matrix.T.contiguous() if turned else matrix
            weights[f"{name}{part}.bias"] = draw(rows_out)
    for norm in norms:
        weights |= {f"{norm}.weight": draw(_WIDTH, around=1.0), f"{norm}.bias": draw(_WIDTH)}
    return weights | {"_read_out.weight": draw(outputs, _WIDTH), "_read_out.bias": draw(outputs)}


def _backbone(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    turned = any(name.startswith("_backbone.transformer.") for name in weights)
    prefix = "_backbone.transformer." if turned else "_backbone."

    def linear(x: Tensor, name: str) -> Tensor:
        matrix = weights[f"{name}.weight"]
        return x @ (matrix.T if turned else matrix) + weights[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attend(x: Tensor, name: str) -> Tensor:
        length, size = x.shape[1], _WIDTH // HEADS
        query, key, value = linear(x, f"{name}.c_attn").split(_WIDTH, dim=-1)
        mixed = []
        for first in range(0, _WIDTH, size):
            part = slice(first, first + size)
            scores = query[..., part] @ key[..., part].mT / math.sqrt(size)
            scores = scores.masked_fill(torch.ones(length, length).triu(1) > 0, -math.inf)
            mixed.append(scores.softmax(-1) @ value[..., part])
        return linear(torch.cat(mixed, dim=-1), f"{name}.c_proj")

    x = x + weights[f"{prefix}wpe.weight"][: x.shape[1]]
    layer = 0
    while f"{prefix}h.{layer}.ln_1.weight" in weights:
        name = f"{prefix}h.{layer}"
        x = x + attend(norm(x, f"{name}.ln_1"), f"{name}.attn")
        h = linear(norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x, layer = x + linear(h, f"{name}.mlp.c_proj"), layer + 1
    return norm(x, f"{prefix}ln_f")
