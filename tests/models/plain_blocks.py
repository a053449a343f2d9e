"""Every block in NumPy's float64, token by token and head by head; nothing of `models` is used but
the names in a shape. And small shapes with weights that make every part of a block count."""

from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from looplab.models.blocks.make import make_block
from looplab.models.blocks.spec import BlockSpec

KINDS = ("gpt2", "llama", "flt", "relu2", "sandwich")
_NORMED_HEADS = ("flt", "relu2")
_EPS = {"llama": 1e-5, "flt": 2.0**-23, "relu2": 1e-6, "sandwich": 1e-6}  # under the norms' roots
ATTENTIONS = ("full", "grouped", "latent", "sliding")

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
WINDOW = 3
ALL = list(product(KINDS, ATTENTIONS))


def small_spec(kind: str, attention: str, n_embd: int = 24, n_head: int = 4) -> BlockSpec:
    """Two layers; the first of a sliding attention sees WINDOW tokens. A sandwich has a width and a
    base of its own."""
    hidden, base = (20, 300) if kind == "sandwich" else (0, 10_000)
    return BlockSpec(
        n_embd, n_head, n_layer=2, kind=kind, hidden=hidden, rope_base=base, attention=attention,
        n_kv=2, rank=5, pattern="S", length=4 * WINDOW + 1,
    )  # fmt: skip


def drawn_block(spec: BlockSpec, layer: int = 0, seed: int = 0) -> nn.Module:
    """A float64 block with every weight drawn from N(0, 1/4), norms and biases too."""
    block = make_block(spec, layer).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return block


def draw_stream(*shape: int, seed: int = 1) -> Tensor:
    """A float64 stream of another mean and size than a norm would give it."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(shape, generator=generator, dtype=torch.float64) + 0.7


def plain_block(
    spec: BlockSpec,
    block: nn.Module,
    x: Array,
    *,
    window: int | None = None,
    memory: Array | None = None,
    positions: list[int] | None = None,
    mask: Mask | None = None,
    scale: float = 1.0,
) -> Array:
    """One stream [S, n_embd] after the block; causal without a mask."""
    p = {
        name.removeprefix("attention.").removeprefix("mlp."): weight.detach().numpy()
        for name, weight in block.named_parameters()
    }
    length, size = len(x), spec.n_embd // spec.n_head
    at = list(range(length)) if positions is None else positions
    seen = np.tri(length, dtype=np.bool_) if mask is None else mask
    normed = [_norm(spec, "pre", token, p, "norm_1") for token in x]
    asked = normed if memory is None else [_norm(spec, "pre", t, p, "norm_1") for t in memory]
    queries = [_query(spec, token, p) for token in asked]
    keys, values = zip(*(_key_value(spec, token, p) for token in normed), strict=True)
    kept = []
    for i in range(length):
        mixed = np.zeros(spec.n_embd)
        for h in range(spec.n_head):
            its = slice(h * size, (h + 1) * size)
            group = h * (len(keys[0]) // size) // spec.n_head
            theirs = slice(group * size, (group + 1) * size)
            bias = p.get("qk_bias", np.zeros((spec.n_head + spec.kv_heads, size)))
            query = _turn(spec, queries[i][its] + bias[h], at[i])
            shift = bias[spec.n_head + group]
            scores = {
                j: float(query @ _turn(spec, keys[j][theirs] + shift, at[j])) / np.sqrt(size)
                for j in range(length)
                if seen[i, j] and (window is None or at[i] - at[j] < window)
            }
            total = sum(np.exp(score) for score in scores.values())
            for j, score in scores.items():
                mixed[its] += np.exp(score) / total * values[j][theirs]
        after = "_after" if spec.kind == "sandwich" else ""
        y = x[i] + scale * _product(mixed, p, "projection")
        y = _norm(spec, "post", y, p, f"norm_1{after}")
        branch = _mlp(spec.kind, _norm(spec, "pre", y, p, "norm_2"), p)
        kept.append(_norm(spec, "post", y + scale * branch, p, f"norm_2{after}"))
    return np.stack(kept)


def _norm(spec: BlockSpec, place: str, x: Array, p: dict[str, Array], name: str) -> Array:
    """The token normed where the block norms at this place, else as it is."""
    here = spec.kind == "sandwich" or spec.post_norm == (place == "post")
    return plain_norm(spec.kind, x, p, name) if here else x


def _product(x: Array, p: dict[str, Array], name: str) -> Array:
    return p[f"{name}.weight"] @ x + p.get(f"{name}.bias", 0.0)


def plain_norm(kind: str, x: Array, p: dict[str, Array], name: str) -> Array:
    """One token [n_embd] after the norm of that name."""
    if kind == "gpt2":
        centred = x - x.sum() / len(x)
        variance = (centred**2).sum() / len(x)
        return centred / np.sqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]
    gain = 1.0 if kind == "flt" else p[f"{name}.weight"]
    return x / np.sqrt((x**2).sum() / len(x) + _EPS[kind]) * gain


def _query(spec: BlockSpec, x: Array, p: dict[str, Array]) -> Array:
    if spec.attention == "latent":
        return _product(x, p, "query")
    return _product(x, p, "qkv")[: spec.n_embd]


def _key_value(spec: BlockSpec, x: Array, p: dict[str, Array]) -> tuple[Array, Array]:
    if spec.attention == "latent":
        latent = plain_norm(spec.kind, _product(x, p, "down"), p, "norm")
        both = _product(latent, p, "up")
    else:
        both = _product(x, p, "qkv")[spec.n_embd :]
    return both[: len(both) // 2], both[len(both) // 2 :]


def _turn(spec: BlockSpec, head: Array, position: int) -> Array:
    """A head of the query or key as it is multiplied: numbers i and i + size / 2 are one complex
    number, turned by position · base^(−2i / size)."""
    if spec.kind == "gpt2":
        return head
    half, base = len(head) // 2, spec.rope_base
    turned = [
        complex(head[i], head[i + half]) * np.exp(1j * position * base ** (-2 * i / len(head)))
        for i in range(half)
    ]
    out = np.array([z.real for z in turned] + [z.imag for z in turned])
    normed = out / np.sqrt((out**2).sum() / len(out) + _EPS[spec.kind])
    return normed if spec.kind in _NORMED_HEADS else out


def _mlp(kind: str, x: Array, p: dict[str, Array]) -> Array:
    h = _product(x, p, "expand")
    if kind == "gpt2":
        h = h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    elif kind in ("llama", "sandwich"):
        gate, value = h[: len(h) // 2], h[len(h) // 2 :]
        h = gate / (1 + np.exp(-gate)) * value
    else:
        h = np.where(h > 0, h, 0) ** 2
    return _product(h, p, "contract")
