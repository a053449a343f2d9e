"""The ways to compute an operation. Which is fastest depends on card, precision and shape."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Variants:
    """The name of each operation's way, one of `VARIANTS`.

    fused: all of it in one kernel, the product of qkv's backward pass aside
    split: the MLP in two kernels forwards, spread over hidden units too; backwards in parts
    cublas: products by PyTorch, small kernels between them
    """

    qkv_forward: str = "fused"
    projection_forward: str = "fused"
    projection_backward: str = "fused"
    mlp_forward: str = "fused"
    mlp_backward: str = "fused"


VARIANTS: Mapping[str, tuple[str, ...]] = {
    "qkv_forward": ("fused", "cublas"),
    "projection_forward": ("fused", "cublas"),
    "projection_backward": ("fused", "cublas"),
    "mlp_forward": ("fused", "split", "cublas"),
    "mlp_backward": ("fused", "split", "cublas"),
}
