"""Every private name of PyTorch that the suite uses, in one place. In another version one may be
gone: tests/models/test_private_torch.py then fails by its name."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def has_onednn_product() -> bool:
    """Says whether this PyTorch has oneDNN, and the operator of `onednn_product`."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """activation(x @ weightᵀ + bias) on a CPU, [..., out] from x [..., in], by oneDNN; the
    activation is "none" or "gelu", in its tanh form."""
    # The last two are the activation's scalars (GELU has none) and its algorithm.
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "tanh")


def sees_bf16() -> bool:
    """Says whether PyTorch takes the processor for one on which oneDNN multiplies in bfloat16;
    False where it does not say so."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is not None and supported()


def skip_where(adam: Optimizer, bad: Tensor) -> None:
    """Have the next step of a fused Adam change nothing if `bad` [] is true, as GradScaler has."""
    # Read by the fused kernel itself, so that the host need not wait to know whether a step counts.
    adam.found_inf = bad.float()  # type: ignore[attr-defined]


def move_towards(averages: list[Tensor], weights: list[Tensor], rate: Tensor) -> None:
    """averages ← averages + rate (weights − averages), in place and in few kernels."""
    moves = torch._foreach_sub(weights, averages)
    torch._foreach_mul_(moves, rate)
    torch._foreach_add_(averages, moves)


def limit_versions(compiled: Callable[..., Any], most: int) -> Callable[..., Any]:
    """A function of torch.compile that has up to `most` versions."""
    config = import_module("torch._dynamo.config")  # takes a second or two
    return config.patch(recompile_limit=most)(compiled)
