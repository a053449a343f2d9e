"""Weights of the reference codes as ours: a state dict's facts about the shape, and its tensors.

reference = read_reference(torch.load("model_500000.pt", weights_only=True))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

# The parts of a layer: their names, and ours.
_PARTS = {
    "ln_1": "norm_1",
    "attn.c_attn": "qkv",
    "attn.c_proj": "projection",
    "ln_2": "norm_2",
    "mlp.c_fc": "expand",
    "mlp.c_proj": "contract",
}
# Causal masks, which older versions keep as buffers, and GPT-2's unused table of words.
_UNUSED = re.compile(r"(.*\.h\.\d+\.attn\.(bias|masked_bias)|_backbone\.wte\.weight)")


@dataclass(frozen=True)
class _Layout:
    """How a code names and stores its backbone: `transposed` matrices are [in, out]; the table of
    positions has 2 n_positions + `extra` rows; read out is one number, or as many as `outputs`
    allows."""

    code: str
    prefix: str
    transposed: bool
    extra: int
    outputs: tuple[int, ...]


_LAYOUTS = (
    _Layout("Leiay/looped_transformer", "_backbone.transformer.", False, 1, outputs=(1, 2)),
    _Layout("dtsip/in-context-learning", "_backbone.", transposed=True, extra=0, outputs=(1,)),
)


@dataclass(frozen=True)
class Reference:
    """What a reference's state dict holds: which `code` made it, the shape as far as tensors say
    it (heads and the way to loop they do not), and the weights by our names, in float32. `classes`
    is 2 where two logits are read out, and 0 where one number is."""

    code: str
    dims: int
    n_layer: int
    n_embd: int
    n_positions: int
    classes: int
    weights: Mapping[str, Tensor]

    def as_classifier(self) -> Reference:
        """The same model where the one number z that it reads out is the log odds of class 1, as in
        dtsip's linear classification: its two logits are 0 and z."""
        read_out = {
            name: torch.cat((torch.zeros_like(self.weights[name]), self.weights[name]))
            for name in ("read_out.weight", "read_out.bias")
        }
        return replace(self, classes=2, weights={**self.weights, **read_out})


def read_reference(tensors: Mapping[str, Tensor]) -> Reference:
    """Read a state dict of github.com/Leiay/looped_transformer (a nanoGPT backbone) or
    github.com/dtsip/in-context-learning (Hugging Face's GPT2Model), compiled or not.

    Raises ValueError, one line, for names or shapes that are neither's.
    """
    # torch.compile puts its prefix before the whole model or before the backbone.
    named = {name.replace("_orig_mod.", ""): tensor for name, tensor in tensors.items()}
    layout, n_layer = _layout(named)
    n_embd, dims = _matrix(named, "_read_in.weight")
    rows, _ = _matrix(named, f"{layout.prefix}wpe.weight")
    outputs, _ = _matrix(named, "_read_out.weight")
    if outputs not in layout.outputs:
        makes = " or ".join(map(str, layout.outputs))
        raise ValueError(f"reads out {outputs} numbers, where {layout.code} has {makes}")
    if rows < 2 or rows % 2 != layout.extra:
        expected = "2 n_positions" + " + 1" * layout.extra
        raise ValueError(f"has {rows} positions, where {layout.code} makes {expected}")
    parts = _expected(layout, n_layer, n_embd, dims, rows, outputs)
    for name in named:
        if name not in parts and not _UNUSED.fullmatch(name):
            raise ValueError(f"holds {name}, which {layout.code} does not have")
    weights = {}
    for name, (ours, shape) in parts.items():
        tensor = _tensor(named, name)
        if tensor.shape != shape:
            raise ValueError(f"has {name} of shape {list(tensor.shape)}, expected {list(shape)}")
        is_matrix = layout.transposed and ours.startswith("loop.blocks") and tensor.ndim == 2
        weights[ours] = (tensor.T if is_matrix else tensor).to(torch.float32).contiguous()
    # Ours has 2 n_positions + 1 rows; the last is never reached by n_positions pairs.
    missing = torch.zeros(1 - layout.extra, n_embd)
    weights["loop.positions"] = torch.cat((weights["loop.positions"], missing))
    classes = 0 if outputs == 1 else outputs
    return Reference(layout.code, dims, n_layer, n_embd, rows // 2, classes, weights)


def _layout(named: Mapping[str, Tensor]) -> tuple[_Layout, int]:
    """Whose names these are, and for how many layers."""
    for layout in _LAYOUTS:
        pattern = re.compile(re.escape(layout.prefix) + r"h\.(\d+)\.")
        layers = {int(match[1]) for name in named if (match := pattern.match(name))}
        if layers and layers == set(range(len(layers))):
            return layout, len(layers)
    first = ", ".join(list(named)[:3]) or "nothing"
    codes = " nor ".join(layout.code for layout in _LAYOUTS)
    raise ValueError(f"is laid out like neither {codes}: it begins with {first}")


def _expected(
    layout: _Layout, n_layer: int, n_embd: int, dims: int, rows: int, outputs: int
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Our name and their shape of every tensor, by their name."""
    widths = {
        "attn.c_attn": (3 * n_embd, n_embd),
        "attn.c_proj": (n_embd, n_embd),
        "mlp.c_fc": (4 * n_embd, n_embd),
        "mlp.c_proj": (n_embd, 4 * n_embd),
    }
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        "_read_in.weight": ("read_in.weight", (n_embd, dims)),
        "_read_in.bias": ("read_in.bias", (n_embd,)),
        f"{layout.prefix}wpe.weight": ("loop.positions", (rows, n_embd)),
        f"{layout.prefix}ln_f.weight": ("loop.norm.weight", (n_embd,)),
        f"{layout.prefix}ln_f.bias": ("loop.norm.bias", (n_embd,)),
        "_read_out.weight": ("read_out.weight", (outputs, n_embd)),
        "_read_out.bias": ("read_out.bias", (outputs,)),
    }
    for layer in range(n_layer):
        for part, ours in _PARTS.items():
            shape: tuple[int, ...] = widths.get(part, (n_embd,))
            matrix = shape[::-1] if layout.transposed else shape
            name, our_name = f"{layout.prefix}h.{layer}.{part}", f"loop.blocks.{layer}.{ours}"
            expected[f"{name}.weight"] = (f"{our_name}.weight", matrix)
            expected[f"{name}.bias"] = (f"{our_name}.bias", shape[:1])
    return expected


def _matrix(named: Mapping[str, Tensor], name: str) -> tuple[int, int]:
    """The two sizes of a matrix."""
    shape = _tensor(named, name).shape
    if len(shape) != 2:
        raise ValueError(f"has {name} of shape {list(shape)}, expected a matrix")
    return shape[0], shape[1]


def _tensor(named: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in named:
        raise ValueError(f"lacks {name}")
    if not named[name].is_floating_point():
        raise ValueError(f"has {name} in {named[name].dtype}, expected floating point")
    return named[name]
