"""Weights of the reference codes under our names: the shape in a state dict, and its tensors.

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
# Causal masks, which older versions have as buffers, and GPT-2's unused word embedding.
_UNUSED = re.compile(r"(.*\.h\.\d+\.attn\.(bias|masked_bias)|_backbone\.wte\.weight)")

_WRAPPERS = re.compile(r"(?<![^.])(_orig_mod|module|_fsdp_wrapped_module)\.")
_FIRST = "_read_in.weight"
LOOPED_LM = "kschwethelm/looped-lm-scaling"
HUGINN = "seal-rg/recurrent-pretraining"
# Parts of names, and ours, replaced in turn.
_OF_LOOPED_LM = {
    **{"transformer.wte.": "read_in.", "transformer.recur.": "loop.blocks."},
    **{"transformer.": "loop.", ".n1.": ".norm_1.", ".n3.": ".norm_2."},
    **{".attn.c_q.": ".attention.qkv.", ".attn.c_proj.": ".attention.projection."},
    **{".c_fc.": ".expand.", ".c_proj.": ".contract.", "lm_head.": "read_out."},
    **{"norm_emb.": "loop.norm_in.", "norm_recur.": "loop.norm_loop."},
    **{"norm_final.": "loop.norm.", "inject.": "loop.inject.", "lane_alpha": "loop.lane_read"},
    **{"lane_mixing": "loop.lane_mix", "lane_beta": "loop.lane_write"},
}
_OF_HUGINN = {
    **{"transformer.wte.": "read_in.", "transformer.core_block.": "loop.blocks."},
    **{"transformer.adapter.": "loop.inject.", "transformer.ln_f.": "loop.norm."},
    **{"transformer.": "loop.", ".norm_2.": ".norm_1_after.", ".norm_3.": ".norm_2."},
    **{".norm_4.": ".norm_2_after.", ".attn.Wqkv.": ".attention.qkv."},
    **{".attn.proj.": ".attention.projection.", ".attn.": ".attention."},
    **{".mlp.fc.": ".mlp.expand.", ".mlp.proj.": ".mlp.contract."},
}


@dataclass(frozen=True)
class _Layout:
    """The way in which a code names and stores its backbone: `transposed` matrices are [in, out];
    the table of positions has 2 n_positions + `extra` rows; the read-out has one of the numbers of
    `outputs`."""

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
    """The content of a reference's state dict: the `code` that wrote it, the shape as far as
    tensors show it (not heads and the way to loop), and the weights by our names, in float32.
    `classes` is 2 for a read-out of two logits, and 0 for one number. Of a text `dims` is 1,
    `n_positions` 0: tensors do not show them."""

    code: str
    dims: int
    n_layer: int
    n_embd: int
    n_positions: int
    classes: int
    weights: Mapping[str, Tensor]

    def as_classifier(self) -> Reference:
        """The model where its output z is the log odds of class 1, as in dtsip's linear
        classification: the two logits are 0 and z."""
        read_out = {
            name: torch.cat((torch.zeros_like(self.weights[name]), self.weights[name]))
            for name in ("read_out.weight", "read_out.bias")
        }
        return replace(self, classes=2, weights={**self.weights, **read_out})


def read_reference(tensors: Mapping[str, Tensor]) -> Reference:
    """Read a state dict of github.com/Leiay/looped_transformer (a nanoGPT backbone),
    github.com/dtsip/in-context-learning (Hugging Face's GPT2Model) or, of a text,
    github.com/kschwethelm/looped-lm-scaling or github.com/seal-rg/recurrent-pretraining, whose
    names are not checked; compiled or not.

    Raises ValueError, one line, for names or shapes that are of none.
    """
    state = _unwrapped(tensors)
    if any(name.startswith("transformer.core_block.") for name in state):
        # Without a table of angles, and the head, which is the embedding.
        state = {k: v for k, v in state.items() if k not in ("freqs_cis", "lm_head.weight")}
        return _read_text(HUGINN, _OF_HUGINN, state)
    if any(name.startswith("transformer.recur.") for name in state):
        return _read_text(LOOPED_LM, _OF_LOOPED_LM, state)
    layout, n_layer = _layout(state)
    n_embd, dims = _matrix(state, "_read_in.weight")
    rows, _ = _matrix(state, f"{layout.prefix}wpe.weight")
    outputs, _ = _matrix(state, "_read_out.weight")
    if outputs not in layout.outputs:
        counts = " or ".join(map(str, layout.outputs))
        raise ValueError(f"reads out {outputs} numbers, where {layout.code} has {counts}")
    if rows < 2 or rows % 2 != layout.extra:
        expected = "2 n_positions" + " + 1" * layout.extra
        raise ValueError(f"has {rows} positions, where {layout.code} makes {expected}")
    parts = _expected(layout, n_layer, n_embd, dims, rows, outputs)
    for name in state:
        if name not in parts and not _UNUSED.fullmatch(name):
            raise ValueError(f"holds {name}, which {layout.code} does not have")
    weights = {}
    for name, (our_name, shape) in parts.items():
        tensor = _tensor(state, name)
        if tensor.shape != shape:
            raise ValueError(f"has {name} of shape {list(tensor.shape)}, expected {list(shape)}")
        is_matrix = layout.transposed and our_name.startswith("loop.blocks") and tensor.ndim == 2
        weights[our_name] = (tensor.T if is_matrix else tensor).to(torch.float32).contiguous()
    # Ours has 2 n_positions + 1 rows; n_positions pairs never use the last one.
    padding = torch.zeros(1 - layout.extra, n_embd, dtype=torch.float32)
    weights["loop.positions"] = torch.cat((weights["loop.positions"], padding))
    classes = 0 if outputs == 1 else outputs
    return Reference(layout.code, dims, n_layer, n_embd, rows // 2, classes, weights)


def _read_text(code: str, names: Mapping[str, str], state: Mapping[str, Tensor]) -> Reference:
    """A model of a text, whose parts of names are ours as in `names`."""
    weights, (_, n_embd) = {}, _matrix(state, "transformer.wte.weight")
    for name in state:
        if ".attn.c_k." in name or ".attn.c_v." in name:
            continue
        parts = [name]
        if ".attn.c_q." in name:  # one matrix here
            parts += [name.replace("c_q", other) for other in ("c_k", "c_v")]
        ours = name
        for part, our_part in names.items():
            ours = ours.replace(part, our_part)
        weights[ours] = torch.cat([_tensor(state, part).float() for part in parts])
    n_layer = sum(name.startswith("loop.blocks.") and ".qkv." in name for name in weights)
    return Reference(code, 1, n_layer, n_embd, 0, 0, weights)


def _unwrapped(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by the names that they have in the model itself, without those of what wraps it,
    or its backbone: torch.compile, DataParallel, FSDP, a trainer's own module."""
    state = {_WRAPPERS.sub("", name): tensor for name, tensor in tensors.items()}
    ends = [name.removesuffix(_FIRST) for name in state if name.endswith(_FIRST)]
    prefix = ends[0] if ends else ""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items()}


def _layout(state: Mapping[str, Tensor]) -> tuple[_Layout, int]:
    """The layout with these names, and the number of layers."""
    for layout in _LAYOUTS:
        pattern = re.compile(re.escape(layout.prefix) + r"h\.(\d+)\.")
        layers = {int(match[1]) for name in state if (match := pattern.match(name))}
        if layers and layers == set(range(len(layers))):
            return layout, len(layers)
    first = ", ".join(list(state)[:3]) or "nothing"
    codes = " nor ".join(layout.code for layout in _LAYOUTS)
    raise ValueError(f"is laid out like neither {codes}: it begins with {first}")


def _expected(
    layout: _Layout, n_layer: int, n_embd: int, dims: int, rows: int, outputs: int
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Our name and the expected shape of every tensor, by the code's name."""
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
        for part, our_part in _PARTS.items():
            shape: tuple[int, ...] = widths.get(part, (n_embd,))
            matrix = shape[::-1] if layout.transposed else shape
            name, our_name = f"{layout.prefix}h.{layer}.{part}", f"loop.blocks.{layer}.{our_part}"
            expected[f"{name}.weight"] = (f"{our_name}.weight", matrix)
            expected[f"{name}.bias"] = (f"{our_name}.bias", shape[:1])
    return expected


def _matrix(state: Mapping[str, Tensor], name: str) -> tuple[int, int]:
    """The two sizes of a matrix."""
    shape = _tensor(state, name).shape
    if len(shape) != 2:
        raise ValueError(f"has {name} of shape {list(shape)}, expected a matrix")
    return shape[0], shape[1]


def _tensor(state: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in state:
        raise ValueError(f"lacks {name}")
    if not state[name].is_floating_point():
        raise ValueError(f"has {name} in {state[name].dtype}, expected floating point")
    return state[name]
