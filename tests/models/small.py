"""Small models with weights far from their initial size, and prompts for them.

At its initial size a block hardly differs from the identity, and many a mistake would not show.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from looplab.models import Model, ModelSpec

FAMILIES = ("looped", "tied", "standard")
DIMS = 3
# The ways to loop beyond those of the families, by block and attention; all make three loops.
WAYS: dict[str, dict[str, Any]] = {
    "LT": {"connectivity": "LT", "block": "flt", "n_layer": 2},
    "LT_i, sliding": {
        **{"connectivity": "LT_i", "block": "llama", "n_layer": 3},
        **{"attention": "sliding", "pattern": "SL"},
    },
    "LT_ai, grouped": {
        **{"connectivity": "LT_ai", "block": "flt", "n_layer": 2},
        **{"attention": "grouped", "n_kv": 1},
    },
    "FLT": {"connectivity": "FLT", "block": "gpt2", "n_layer": 2},
    "FLT, latent": {
        **{"connectivity": "FLT", "block": "flt", "n_layer": 2},
        **{"attention": "latent", "rank": 5},
    },
    "FLT_res": {"connectivity": "FLT_res", "block": "llama", "n_layer": 2},
    "shared, llama": {"injection": "multiply", "block": "llama", "n_layer": 2},
    "recurrent": {"injection": "concat", "prelude": 1, "coda": 1, "block": "llama", "n_layer": 2},
    "recurrent, add": {"injection": "add", "coda": 2},
    "recurrent, multiply": {"injection": "multiply", "prelude": 2, "block": "flt"},
    "recurrent, none, sliding": {
        **{"injection": "none", "prelude": 1, "coda": 2, "block": "flt", "n_layer": 2},
        **{"attention": "sliding", "pattern": "S"},
    },
    "unnormed": {
        **{"injection": "none", "norm": "at_readout", "n_layer": 2},
        **{"loops": 3, "residual_scaling": "factored", "residual_factor": 0.7},
    },
    "unnormed, add": {
        **{"injection": "add", "norm": "at_readout", "coda": 1, "block": "llama"},
        **{"loops": 3, "residual_scaling": "linear"},
    },
    "unnormed, sandwich": {
        **{"injection": "concat", "norm": "at_readout", "prelude": 1, "coda": 2, "n_layer": 2},
        **{"block": "sandwich", "n_hidden": 20, "rope_base": 300},
        **{"loops": 3, "residual_scaling": "sqrt"},
    },
    "sandwich": {"injection": "none", "coda": 1, "block": "sandwich"},
    "unnormed, prelude": {
        **{"injection": "none", "norm": "at_readout", "prelude": 1},
        **{"loops": 3, "residual_scaling": "sqrt"},
    },
    "lanes": {"injection": "none", "lanes": 2, "loops": 3, "block": "llama", "n_layer": 2},
    "lanes, coda": {"injection": "none", "lanes": 3, "loops": 4, "prelude": 1, "coda": 1},
    "standard, flt": {"family": "standard", "block": "flt"},
    "pairs": {"tokens": "pairs"},
    "standard, pairs": {"family": "standard", "tokens": "pairs"},
}


class Batch(NamedTuple):
    """Prompts, as any object with xs and ys is."""

    xs: Tensor
    ys: Tensor


def draw_prompts(batch: int = 3, points: int = 6, dims: int = DIMS, seed: int = 0) -> Batch:
    """Standard normal prompts, float32."""
    generator = torch.Generator().manual_seed(seed)
    xs = torch.randn(batch, points, dims, generator=generator)
    return Batch(xs, torch.randn(batch, points, generator=generator))


def make_spec(family: Any = "looped", **changes: Any) -> ModelSpec:
    """16 wide, two heads, one layer or, for a standard model, three."""
    shape: dict[str, Any] = {"n_layer": 3 if family == "standard" else 1}
    shape |= {"n_embd": 16, "n_head": 2, "n_positions": 8}
    plain = family == "looped" and "connectivity" not in changes
    shape |= {} if plain else {"injection": "none"}
    return ModelSpec(dims=DIMS, family=family, **(shape | changes))


def make_model(family: str = "looped", seed: int = 0, spread: float = 0.3, **changes: Any) -> Model:
    """A model of `make_spec` with N(0, spread²) added to every number in it."""
    model = Model(make_spec(family, **changes))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=spread)
    return model


def as_double(prompts: Batch) -> Batch:
    """The same prompts in float64."""
    return Batch(prompts.xs.double(), prompts.ys.double())


def saved_bytes(model: Model, loops: int, window: int, grad_loops: int | None = None) -> int:
    """Bytes of all tensors that autograd saves, each as often as it is saved."""
    total = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    device = next(model.parameters()).device
    prompts = Batch(*(part.to(device) for part in draw_prompts()))
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        model(prompts, loops, window, grad_loops=grad_loops)
    return total
