"""The backend `cpu`: products by oneDNN, attention over short prompts by plain products, attention
and GELU of our own in bfloat16.

PyTorch computes float32 products by its BLAS; oneDNN's are up to a tenth faster for large sizes,
and a fused GELU costs a fifth of a separate one. The operator is a private one of PyTorch; where it
is not available, products are PyTorch's, and so are those in bfloat16 where oneDNN has none.
"""

import ctypes
import math
import platform
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from . import cpu_derivatives, private_torch
from .cpu_attention import attend_causally
from .operations import Operations, attend_by_products

_WIDE = 128  # features from which on oneDNN is faster
_SHORT = 48  # tokens up to which plain products are faster than the fused attention
# Of GELU's tanh form z σ(u): u = z (LINEAR + CUBIC z²).
_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR
_NUMBERS = 2**18  # at once, so that they stay in the cache


class CpuOperations(Operations):
    """Operations that are faster on a CPU; on other devices the plain ones."""

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        dtype, parts = _dtype(x), [x, layer.weight, layer.bias]
        wide = min(layer.weight.shape) >= _WIDE
        if wide and dtype is torch.bfloat16:
            # Cast here, as autocast does not know the private operator.
            parts = [None if part is None else part.to(dtype) for part in parts]
        elif not (wide and dtype is torch.float32 and x.dtype is layer.weight.dtype):
            return super().linear(x, layer)
        return _Linear.apply(*parts)  # type: ignore[no-untyped-call]

    def linear_gelu(self, x: Tensor, layer: nn.Linear) -> Tensor:
        """Product and GELU in one call where no gradient needs the values between."""
        dtype = _dtype(x)
        if torch.is_grad_enabled() or dtype not in (torch.float32, torch.bfloat16):
            z = self.linear(x, layer)
            return gelu(z) if _is_bf16(z) else nn.functional.gelu(z, approximate="tanh")
        # Only GPT-2's MLP has a GELU, and its layers have biases.
        return _product(x.to(dtype), layer.weight.to(dtype), layer.bias.to(dtype), "gelu")

    def rms_norm(self, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        if _is_exact(x, weight):
            return cpu_derivatives.rms_norm(x, weight, eps)
        return super().rms_norm(x, weight, eps)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if _is_exact(x, cos):
            return cpu_derivatives.rotate(x, cos, sin)
        return super().rotate(x, cos, sin)

    def squared_relu(self, z: Tensor) -> Tensor:
        return cpu_derivatives.squared_relu(z) if _is_exact(z) else super().squared_relu(z)

    def attend(self, heads: Tensor, mask: Tensor | None) -> Tensor:
        """By a mask in bf16, in fp32: PyTorch's backward pass in bf16 is several times slower."""
        if _is_bf16(heads):
            if mask is None:
                return attend_causally(heads)
            with torch.autocast("cpu", enabled=False):
                return super().attend(heads.float(), mask)
        if mask is not None or heads.device.type != "cpu" or heads.shape[-2] > _SHORT:
            return super().attend(heads, mask)
        return attend_by_products(heads, mask)


def keep_memory() -> None:
    """Let glibc keep freed memory, in the whole process. By default it returns the memory of large
    tensors to the kernel, which maps and clears it again at every step: up to a tenth of the time
    at 101 points."""
    if platform.libc_ver()[0] != "glibc":
        return
    trim_threshold, mmap_max = -1, -4  # malloc.h's names for mallopt
    libc = ctypes.CDLL(None)
    # No mapping for a single allocation, and the heap is not trimmed below 2 GiB.
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)


@cache
def has_onednn() -> bool:
    """Says whether this PyTorch has oneDNN, and the private operator by which it is called."""
    return private_torch.has_onednn_product()


@cache
def has_bf16_products() -> bool:
    """Says whether oneDNN multiplies in bfloat16 on this processor, tried once: not with AVX2
    alone."""
    if not has_onednn():
        return False
    one = torch.ones(1, 1, dtype=torch.bfloat16, device="cpu")
    try:
        _product(one, one, None)
    except RuntimeError:
        # ONEDNN_MAX_CPU_ISA may hide instructions from oneDNN that PyTorch sees: its own products
        # would then be oneDNN's, and fail too.
        if private_torch.sees_bf16():
            torch.backends.mkldnn.set_flags(False)
        return False
    return True


def _dtype(x: Tensor) -> torch.dtype | None:
    """The dtype of oneDNN's product; None where oneDNN is not used."""
    if x.device.type != "cpu" or not has_onednn():
        return None
    # Within autocast the operands still have their own dtypes here.
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    return None if dtype is torch.bfloat16 and not has_bf16_products() else dtype


def _is_exact(*tensors: Tensor | None) -> bool:
    """Says whether these are float32 on a CPU, or float64."""
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    on_cpu = all(tensor is None or tensor.device.type == "cpu" for tensor in tensors)
    return on_cpu and len(dtypes) == 1 and dtypes <= {torch.float32, torch.float64}


def _is_bf16(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.bfloat16


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none") -> Tensor:
    """activation(x @ weightᵀ + bias)."""
    return private_torch.onednn_product(x, weight, bias, activation)


class _Linear(torch.autograd.Function):
    """F.linear, with derivatives of every kind and order."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _product(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        # [..., out] and [..., in] as matrices with a row for each token.
        rows, inputs = gradient.flatten(0, -2), x.flatten(0, -2)
        bf16 = x.dtype is torch.bfloat16
        if bf16 or torch.is_grad_enabled():  # for a second derivative
            dx = rows @ weight
        else:
            dx = _product(rows, weight.T.contiguous(), None)
        # In bfloat16 the product with more columns than rows is the slower one.
        expands = bf16 and weight.shape[0] > weight.shape[1]
        d_weight = (inputs.T @ rows).T if expands else rows.T @ inputs
        bias_gradient = rows.sum(0) if ctx.needs_input_grad[2] else None
        return dx.view_as(x), d_weight, bias_gradient

    @staticmethod
    def jvp(ctx: Any, x: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        primal_x, primal_weight = ctx.saved_tensors
        # The product rule: dx Wᵀ + x dWᵀ + db, where a missing tangent is zero.
        tangent = primal_x.new_zeros(*primal_x.shape[:-1], primal_weight.shape[0])
        tangent = tangent if x is None else tangent + x @ primal_weight.T
        tangent = tangent if weight is None else tangent + primal_x @ weight.T
        return tangent if bias is None else tangent + bias


def gelu(z: Tensor) -> Tensor:
    """GELU of z [..., n] in bfloat16, in its tanh form, for values that need a gradient, which has
    no derivative of its own.

    PyTorch takes a hyperbolic tangent forward and again backward. Here it is z σ(u) with u = 2
    √(2/π) (z + 0.044715 z³). A sigmoid is five times cheaper, and the slope costs little more.
    Computed in float32 in parts."""
    return _Gelu.apply(z)  # type: ignore[no-untyped-call]


class _Gelu(torch.autograd.Function):
    """The slope is kept, in bfloat16, in place of z."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        value, slope = _value_and_slope(z)
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return gradient * slope


def _value_and_slope(z: Tensor) -> tuple[Tensor, Tensor]:
    """With s = σ(u) the slope is s + z s (1 - s) (LINEAR + 3 CUBIC z²)."""
    value, slope = (torch.empty(z.shape, dtype=z.dtype) for _ in range(2))
    linear = torch.tensor(_LINEAR, dtype=torch.float32)
    parts = (tensor.view(-1).split(_NUMBERS) for tensor in (z.contiguous(), value, slope))
    for part, part_value, part_slope in zip(*parts, strict=True):
        x = part.float()
        factor = torch.addcmul(linear, x, x, value=_CUBIC)  # u / z
        s = (x * factor).sigmoid_()
        part_value.copy_(x.mul_(s))
        x.addcmul_(x, s, value=-1)  # z s (1 - s)
        # LINEAR + 3 CUBIC z² = 3 factor − 2 LINEAR.
        part_slope.copy_(s.add_(x, alpha=-2 * _LINEAR).addcmul_(x, factor, value=3))
    return value, slope
