"""The shared parts of all kernels: products, rounding, norms, and the tiling of rows.

A kernel's program works on whole rows of width D, held as a tile [BLOCK_M, BLOCK_D] with BLOCK_D
the next power of two. Streams, sums and statistics are float32; the operands of products have the
compute dtype.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from . import private_triton
from .variants import Variants

INTERPRETED = tl.constexpr(private_triton.is_interpreted())
# TF32 has 10 bits of mantissa, float32 23. Tensor cores cut the other 13 bits off, which is 2.6
# times the error of rounding and makes every product too small; so operands are rounded before.
_TF32_HALF = tl.constexpr(0x1000)
_TF32_MASK = tl.constexpr(-0x2000)


@dataclass(frozen=True)
class Compute:
    """The arithmetic of products: operands of `dtype` (float32 or bfloat16), and for float32
    whether they are rounded to TF32; by which `variants` operations are made. `casts` holds the
    weights that were cast, so that each is cast once a step: it must not outlive the step, since a
    replayed CUDA graph changes weights unseen."""

    dtype: torch.dtype
    tf32: bool = False
    variants: Variants = field(default_factory=Variants)
    casts: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def precision(self) -> str:
        """Triton's name for it, which is ignored for bfloat16 operands."""
        return "tf32" if self.tf32 or self.dtype is torch.bfloat16 else "ieee"

    def cast(self, weight: Tensor) -> Tensor:
        """A weight as operand: contiguous, of the compute dtype, rounded to TF32 where products
        are, detached."""
        known, operand = self.casts.get(id(weight), (None, weight))
        if known is weight:
            return operand
        operand = weight.detach().to(self.dtype).contiguous()
        if self.precision == "tf32" and self.dtype is torch.float32:
            bits = (operand.view(torch.int32) + _TF32_HALF.value) & _TF32_MASK.value
            operand = torch.where(operand.isfinite(), bits.view(torch.float32), operand)
        self.casts[id(weight)] = weight, operand  # with the weight, lest another gets its id
        return operand


class Tiles(NamedTuple):
    """The shape of a launch: rows of a program, columns (or hidden units) of a chunk, warps and
    pipeline stages."""

    rows: int
    columns: int
    warps: int
    stages: int


class TileTable(NamedTuple):
    """Tiles by precision and by the bytes of a row of operands; `hopper_tf32` for rows of up to
    1,024 bytes on cards whose TF32 products have 64 rows. `to_512` and `hopper_tf32` are the
    fastest of some twenty, measured on an H200 at the paper's width; the others have
    not been timed. All fit their cards."""

    ieee: Tiles
    to_512: Tiles
    hopper_tf32: Tiles
    to_1024: Tiles
    to_2048: Tiles

    def choose(self, compute: Compute, n_embd: int) -> Tiles:
        """The tiles for rows of n_embd on the current device."""
        if compute.precision == "ieee":
            return self.ieee
        size = width(n_embd) * compute.dtype.itemsize
        if compute.dtype is torch.float32 and size <= 1024 and _capability() >= 90:
            return self.hopper_tf32
        return self.to_512 if size <= 512 else self.to_1024 if size <= 1024 else self.to_2048


def _capability() -> int:
    """Ten times that of the current device; an H100's in the interpreter."""
    return 90 if INTERPRETED.value else private_triton.capability()


def width(n_embd: int) -> int:
    """BLOCK_D: the smallest power of two that is at least n_embd."""
    return int(triton.next_power_of_2(n_embd))


def affine(norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """Weight and bias of a LayerNorm, detached."""
    return norm.weight.detach(), norm.bias.detach()


@triton.jit
def product(a, b, accumulator, PRECISION: tl.constexpr):
    """accumulator + a @ b, in float32."""
    if INTERPRETED:  # the interpreter multiplies the bit patterns of bfloat16
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, accumulator, input_precision=PRECISION)


@triton.jit
def rounded(x, like):
    """x, rounded to the dtype that `like` points to."""
    if INTERPRETED and x.dtype != like.dtype.element_ty:  # the interpreter truncates
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
        x = bits.to(tl.float32, bitcast=True)
    return x.to(like.dtype.element_ty)


@triton.jit
def operand(x, like, PRECISION: tl.constexpr):
    """x as operand of a product with `like`, a pointer to the other: rounded to its dtype, or where
    PRECISION is "tf32" and both are float32, to TF32 (to nearest, ties away from zero)."""
    if PRECISION == "tf32" and like.dtype.element_ty == tl.float32:
        bits = (x.to(tl.int32, bitcast=True) + _TF32_HALF) & _TF32_MASK
        # The sum turns a NaN of all ones into a zero.
        return tl.where(x == x, bits.to(tl.float32, bitcast=True), x)
    return rounded(x, like)


@triton.jit
def rows_of(tile, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr):
    """For a tile of rows of a contiguous [N, D]: its start (a scalar; only it may need 64 bits),
    the offsets from there, and the mask of those inside."""
    columns = tl.arange(0, BLOCK_D)
    inside = (tile * BLOCK_M + tl.arange(0, BLOCK_M) < N)[:, None]
    if D != BLOCK_D:
        inside = inside & (columns < D)[None, :]
    at = tl.arange(0, BLOCK_M)[:, None] * D + columns[None, :]
    return tl.cast(tile, tl.int64) * BLOCK_M * D, at, inside


@triton.jit
def vector(pointer, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """A vector of D numbers as a row [1, BLOCK_D] in float32, zero beyond its end."""
    columns = tl.arange(0, BLOCK_D)
    return tl.load(pointer + columns, columns < D, 0.0).to(tl.float32)[None, :]


@triton.jit
def normalise(x, D: tl.constexpr, BLOCK_D: tl.constexpr, EPSILON: tl.constexpr):
    """(Rows - mean) / standard deviation, and 1 / standard deviation; x must be zero beyond D, and
    so is the result."""
    mean = tl.sum(x, 1) / D
    centred = x - mean[:, None]
    if D != BLOCK_D:
        centred = tl.where((tl.arange(0, BLOCK_D) < D)[None, :], centred, 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / D + EPSILON)
    return centred * inverse[:, None], inverse


@triton.jit
def normalise_backward(gradient, normal, inverse, D: tl.constexpr):
    """The gradient of x from that of its normalised rows. Not zero beyond D."""
    mean = tl.sum(gradient, 1) / D
    correlation = tl.sum(gradient * normal, 1) / D
    return (gradient - mean[:, None] - normal * correlation[:, None]) * inverse[:, None]


@triton.jit
def through_memory(x, pointer, at, inside):
    """x, stored and read back. As an operand it is then in shared memory, where the tensor cores
    read it; from registers it would be copied once more in every step of the loop that follows."""
    tl.store(pointer + at, x, inside)
    tl.debug_barrier()
    return tl.load(pointer + at, inside, 0.0)


@triton.jit
def gelu_gate(x, like):
    """sigmoid(2u) with u = sqrt(2/π) (x + 0.044715 x³): GELU in its tanh form is x times this.

    Where `like` points to bfloat16, by the hardware's tanh, one instruction with a relative error
    of at most 2⁻¹¹ (PTX ISA, tanh.approx.f32); a bfloat16 is rounded by up to 2⁻⁹.
    """
    u = 0.7978845608028654 * x * (1 + 0.044715 * x * x)
    if like.dtype.element_ty == tl.bfloat16 and not INTERPRETED:
        tanh = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [u], dtype=tl.float32, is_pure=True, pack=1
        )
        return 0.5 + 0.5 * tanh
    return tl.sigmoid(2 * u)


@triton.jit
def gelu_slope(x, gate):
    """The derivative of GELU at x, from its gate."""
    return gate * (1 + x * (1 - gate) * 1.5957691216057308 * (1 + 0.134145 * x * x))
