"""Weights of the reference codes under our names: the shape in a state dict, and its tensors.

reference = read_reference(torch.load("model_500000.pt", weights_only=True))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

# Causal masks, which older versions have as buffers, and GPT-2's unused word embedding.
_UNUSED = re.compile(r"(.*\.h\.\d+\.attn\.(bias|masked_bias)|_backbone\.wte\.weight)")

_WRAPPERS = re.compile(
    r"(?<![^.])(_orig_mod|module|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
# The weights that every model has, after the name of what it is a part of.
READ_IN = re.compile(r"(.*?)(_read_in|transformer\.wte)\.weight")
LEIAY = "Leiay/looped_transformer"
GARG = "dtsip/in-context-learning"
LOOPED_LM = "kschwethelm/looped-lm-scaling"
HUGINN = "seal-rg/recurrent-pretraining"
# Parts of names, and ours, replaced in turn.
_OF_PAIRS = {
    "_backbone.transformer.": "_backbone.",
    "_backbone.h.": "loop.blocks.",
    "_backbone.wpe.weight": "loop.positions",
    "_backbone.ln_f.": "loop.norm.",
    ".ln_1.": ".norm_1.",
    ".attn.c_attn.": ".qkv.",
    ".attn.c_proj.": ".projection.",
    ".ln_2.": ".norm_2.",
    ".mlp.c_fc.": ".expand.",
    ".mlp.c_proj.": ".contract.",
    "_read_in.": "read_in.",
    "_read_out.": "read_out.",
}
_OF_LOOPED_LM = {
    "transformer.wte.": "read_in.",
    "transformer.recur.": "loop.blocks.",
    "transformer.": "loop.",
    ".n1.": ".norm_1.",
    ".n3.": ".norm_2.",
    ".attn.c_q.": ".attention.qkv.",
    ".attn.c_proj.": ".attention.projection.",
    ".c_fc.": ".expand.",
    ".c_proj.": ".contract.",
    "lm_head.": "read_out.",
    "norm_emb.": "loop.norm_in.",
    "norm_recur.": "loop.norm_loop.",
    "norm_final.": "loop.norm.",
    "inject.": "loop.inject.",
    "lane_alpha": "loop.lane_read",
    "lane_mixing": "loop.lane_mix",
    "lane_beta": "loop.lane_write",
}
_OF_HUGINN = {
    "transformer.wte.": "read_in.",
    "transformer.core_block.": "loop.blocks.",
    "transformer.adapter.": "loop.inject.",
    "transformer.ln_f.": "loop.norm.",
    "transformer.": "loop.",
    # Theirs are norms 1 to 4; each name here is made free before another one becomes it.
    ".norm_2.": ".norm_1_after.",
    ".norm_3.": ".norm_2.",
    ".norm_4.": ".norm_2_after.",
    ".attn.Wqkv.": ".attention.qkv.",
    ".attn.proj.": ".attention.projection.",
    ".attn.": ".attention.",
    ".mlp.fc.": ".mlp.expand.",
    ".mlp.proj.": ".mlp.contract.",
}


@dataclass(frozen=True)
class Reference:
    """The content of a reference's state dict: the `code` that wrote it, the shape, and the weights
    by our names, in float32. The shape is what tensors show of it: not heads, and not the way to
    loop. `classes` is 2 for a read-out of two logits, and 0 for one number. Of a text `dims` is 1,
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
        weights = dict(self.weights)
        for name in ("read_out.weight", "read_out.bias"):
            # softmax(0, z) gives class 1 the probability σ(z).
            weights[name] = torch.cat((torch.zeros_like(weights[name]), weights[name]))
        return replace(self, classes=2, weights=weights)


def read_reference(tensors: Mapping[str, Tensor]) -> Reference:
    """Read a state dict of github.com/Leiay/looped_transformer (a nanoGPT backbone),
    github.com/dtsip/in-context-learning (Hugging Face's GPT2Model) or, of a text,
    github.com/kschwethelm/looped-lm-scaling or github.com/seal-rg/recurrent-pretraining; compiled
    or not. Only what tells the shape is checked: a model takes no other names and shapes.

    Raises ValueError, one line, for one that is of none.
    """
    state = _unwrapped(tensors)
    if any(name.startswith("transformer.core_block.") for name in state):
        # Without a table of angles, and the head, which is the embedding.
        state = {k: v for k, v in state.items() if k not in ("freqs_cis", "lm_head.weight")}
        return _read_text(HUGINN, _OF_HUGINN, state)
    if any(name.startswith("transformer.recur.") for name in state):
        return _read_text(LOOPED_LM, _OF_LOOPED_LM, state)
    return _read_pairs(state)


def _read_pairs(state: Mapping[str, Tensor]) -> Reference:
    """A model of pairs."""
    if any(name.startswith("_backbone.transformer.h.") for name in state):
        code = LEIAY
        prefix = "_backbone.transformer."
        extra = 1
    elif any(name.startswith("_backbone.h.") for name in state):
        code = GARG
        prefix = "_backbone."
        extra = 0
    else:
        first = ", ".join(list(state)[:3]) or "nothing"
        raise ValueError(f"is laid out like neither {LEIAY} nor {GARG}: it begins with {first}")
    # A linear layer's weight is [out, in].
    n_embd, dims = _matrix(state, "_read_in.weight")
    rows, _ = _matrix(state, f"{prefix}wpe.weight")
    outputs, _ = _matrix(state, "_read_out.weight")
    weights = {}
    for name in state:
        if not _UNUSED.fullmatch(name):
            ours = _renamed(name, _OF_PAIRS)
            tensor = _tensor(state, name).float()
            # Hugging Face's matrices are [in, out].
            turned = code == GARG and ours.startswith("loop.blocks.") and tensor.ndim == 2
            weights[ours] = (tensor.T if turned else tensor).contiguous()
    counts = (1, 2) if code == LEIAY else (1,)
    if outputs not in counts:
        expected = " or ".join(map(str, counts))
        raise ValueError(f"reads out {outputs} numbers, where {code} has {expected}")
    if rows < 2 or rows % 2 != extra:
        expected = "2 n_positions" + " + 1" * extra
        raise ValueError(f"has {rows} positions, where {code} makes {expected}")
    # Ours has 2 n_positions + 1 rows; n_positions pairs never use the last one.
    padding = torch.zeros(1 - extra, n_embd, dtype=torch.float32)
    weights["loop.positions"] = torch.cat((weights["loop.positions"], padding))
    classes = 0 if outputs == 1 else outputs
    return Reference(code, dims, _layers(weights), n_embd, rows // 2, classes, weights)


def _read_text(code: str, names: Mapping[str, str], state: Mapping[str, Tensor]) -> Reference:
    """A model of a text, whose parts of names are ours as in `names`."""
    weights = {}
    _, n_embd = _matrix(state, "transformer.wte.weight")
    for name in state:
        if ".attn.c_k." in name or ".attn.c_v." in name:
            continue
        parts = [name]
        if ".attn.c_q." in name:  # one matrix here
            parts += [name.replace("c_q", other) for other in ("c_k", "c_v")]
        weights[_renamed(name, names)] = torch.cat([_tensor(state, part).float() for part in parts])
    return Reference(code, 1, _layers(weights), n_embd, 0, 0, weights)


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """Our name, of parts by `names`."""
    for their_part, our_part in names.items():
        name = name.replace(their_part, our_part)
    return name


def _layers(weights: Mapping[str, Tensor]) -> int:
    """The number of layers in the loop."""
    return sum(name.startswith("loop.blocks.") and name.endswith("qkv.weight") for name in weights)


def _unwrapped(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the model alone, by the names that they have in it: without those of what
    wraps it, or its backbone (torch.compile, DataParallel, FSDP, a trainer's own module), and
    without what stands beside it there. Of a model and its average, the average."""
    matches = map(READ_IN.fullmatch, tensors)
    prefixes = [match[1] for match in matches if match]
    # Beside an average the outermost one: what is nested deeper is a part of it.
    prefix = max(prefixes, key=lambda name: ("ema" in name, -len(name)), default="")
    return {
        _WRAPPERS.sub("", name.removeprefix(prefix)): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


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
