"""The parameters of a block: their initial values, their roles and their number."""

import math
from typing import NamedTuple

import torch
from torch import Generator, nn

from .spec import BlockSpec

_OUTPUTS = ("projection", "contract")  # the layers whose outputs are added to the stream
_GAINED = (*_OUTPUTS, "expand", "qkv", "up")  # of the fused last two the values alone
_BLOCK = 64  # a vocabulary is rounded up to a multiple of it


class Role(NamedTuple):
    """The role of a parameter: `kind` is `matrix`, `norm` or `bias` (in a model also `embedding`,
    `read_out`, `lane` or `injection`); `parts` are the rows of each matrix of a fused one (queries,
    keys and values), or all rows of a single one; `layer` is its index in the looped stack, None
    outside it."""

    kind: str
    parts: tuple[int, ...]
    layer: int | None = None


@torch.no_grad()
def initialise_block(block: nn.Module, spec: BlockSpec, generator: Generator) -> None:
    """Sample the weights of `make_block(spec)`; biases 0, norms the identity.

    gpt2: N(0, std²), with std / sqrt(2 n_layer) for outputs to the stream (Radford et al. 2019).
    llama and sandwich: N(0, std²) (arXiv 2606.18524). flt: uniform within ±sqrt(3 / fan-in), of
    variance 1 / fan-in, and 0 for outputs to the stream: a new block is the identity (arXiv
    2605.18797). relu2: the same without zeros (arXiv 2604.21106). All times the spec's gain in
    values, MLP and outputs (DeepNorm's β, arXiv 2203.00555)."""
    for name, module in block.named_modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
        elif isinstance(module, nn.Linear):
            _initialise_linear(module, name.endswith(_OUTPUTS), spec, generator)
            if name.endswith(_GAINED):
                # The last rows of a fused matrix are its values. A slice from -0 is all of it.
                rows = spec.kv_heads * spec.head_size if name.endswith(("qkv", "up")) else 0
                module.weight[-rows:] *= spec.gain
    for name, parameter in block.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)


def block_roles(block: nn.Module, spec: BlockSpec) -> dict[str, Role]:
    """The role of each parameter of `make_block(spec)` by its name in the block."""
    size = spec.kv_heads * spec.head_size
    fused = {"qkv.weight": (spec.n_embd, size, size), "up.weight": (spec.n_embd, spec.n_embd)}
    if spec.gated:
        fused["expand.weight"] = (spec.n_hidden, spec.n_hidden)
    roles = {}
    for name, parameter in block.named_parameters():
        # GPT-2's block has `qkv.weight`, the others `attention.qkv.weight`.
        last_two = ".".join(name.split(".")[-2:])
        if "norm" in name:
            kind = "norm"
        elif name.endswith("bias"):
            kind = "bias"
        else:
            kind = "matrix"
        roles[name] = Role(kind, fused.get(last_two, (len(parameter),)))
    return roles


def padded_vocabulary(vocabulary: int) -> int:
    """A vocabulary, rounded up to a multiple of 64: the rows of its matrices."""
    return -(-vocabulary // _BLOCK) * _BLOCK


def _initialise_linear(
    layer: nn.Linear, is_output: bool, spec: BlockSpec, generator: Generator
) -> None:
    if spec.kind in ("flt", "relu2"):
        # A uniform number within ±√(3 v) has variance v.
        bound = 0.0 if is_output and spec.kind == "flt" else math.sqrt(3 / layer.in_features)
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        return
    # 2 n_layer branches are added to the stream: 1/√(2 n_layer) keeps its variance from growing.
    is_scaled = is_output and spec.kind == "gpt2"
    std = spec.std / math.sqrt(2 * spec.n_layer) if is_scaled else spec.std
    nn.init.normal_(layer.weight, std=std, generator=generator)
