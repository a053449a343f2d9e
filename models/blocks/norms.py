"""The norms of the blocks, by the block's kind."""

from torch import Tensor, nn

from ..operations import current

# Under the root, by kind. That of flt is PyTorch's for float32, for every dtype: its norm is
# idempotent.
_EPS = {"gpt2": 1e-5, "llama": 1e-5, "flt": 2.0**-23, "relu2": 1e-6, "sandwich": 1e-6}


def make_norm(kind: str, width: int) -> nn.Module:
    """LayerNorm for gpt2, RMSNorm without parameters for flt, with a learned gain for the
    others."""
    if kind == "gpt2":
        return nn.LayerNorm(width, eps=_EPS[kind])
    return RmsNorm(width, eps=_EPS[kind], elementwise_affine=kind != "flt")


class RmsNorm(nn.RMSNorm):
    """torch's, by the operations of the backend."""

    def forward(self, x: Tensor) -> Tensor:
        """x [..., width] over the root of its mean square, times the gain."""
        assert self.eps is not None
        return current().rms_norm(x, self.weight, self.eps)


def free_norm(kind: str, x: Tensor) -> Tensor:
    """x [..., width] over the root of its mean square."""
    return current().rms_norm(x, None, _EPS[kind])
