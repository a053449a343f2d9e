"""The variants of the kernels' operations, by name. Neither torch nor triton here."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Variants:
    """By which variant each operation is made: `fused`, one kernel of ours; `split`, a kernel for
    each product; `cublas`, the products by PyTorch."""

    qkv_forward: str = "fused"
    projection_forward: str = "fused"
    projection_backward: str = "fused"
    mlp_forward: str = "fused"
    mlp_backward: str = "fused"


# The names that each field may have.
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "qkv_forward": ("fused", "cublas"),
    "projection_forward": ("fused", "cublas"),
    "projection_backward": ("fused", "cublas"),
    "mlp_forward": ("fused", "split", "cublas"),
    "mlp_backward": ("fused", "split", "cublas"),
}
