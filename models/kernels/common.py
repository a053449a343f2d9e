"""What all kernels share: how they multiply, round and normalise, and how rows are tiled.

A kernel's program works on whole rows of width D, held as a tile [BLOCK_M, BLOCK_D] with BLOCK_D
the next power of two. Streams, sums and statistics are float32; the operands of products have the
compute dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton import knobs

INTERPRETED = tl.constexpr(knobs.runtime.interpret)


@dataclass(frozen=True)
class Compute:
    """How products are computed: operands of `dtype` (float32 or bfloat16), and for float32 whether
    they are rounded to TF32."""

    dtype: torch.dtype
    tf32: bool = False

    @property
    def precision(self) -> str:
        """Triton's name for it, which bfloat16 operands do not look at."""
        return "tf32" if self.tf32 or self.dtype is torch.bfloat16 else "ieee"

    def cast(self, weight: Tensor) -> Tensor:
        """A weight as operand: contiguous, of the compute dtype, outside any graph."""
        return weight.detach().to(self.dtype).contiguous()


class Tiles(NamedTuple):
    """The shape of a launch: rows of a program, columns (or hidden units) of a chunk, warps and
    pipeline stages."""

    rows: int
    columns: int
    warps: int
    stages: int


class TileTable(NamedTuple):
    """Tiles by precision and by the bytes of a row of operands. Found with `python -m
    benchmarks.kernels --static`, not on a GPU: at the paper's width they spill no registers, and
    they fit an A100 too."""

    ieee: Tiles
    to_512: Tiles
    to_1024: Tiles
    to_2048: Tiles

    def choose(self, compute: Compute, n_embd: int) -> Tiles:
        """Those for rows of n_embd."""
        if compute.precision == "ieee":
            return self.ieee
        size = width(n_embd) * compute.dtype.itemsize
        return self.to_512 if size <= 512 else self.to_1024 if size <= 1024 else self.to_2048


def width(n_embd: int) -> int:
    """BLOCK_D: the smallest power of two a row fits in."""
    return int(triton.next_power_of_2(n_embd))


def affine(norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """Weight and bias of a LayerNorm, outside any graph."""
    return norm.weight.detach(), norm.bias.detach()


@triton.jit
def product(a, b, accumulator, PRECISION: tl.constexpr):
    """accumulator + a @ b, in float32."""
    if INTERPRETED:  # which multiplies the bit patterns of bfloat16
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, accumulator, input_precision=PRECISION)


@triton.jit
def rounded(x, like):
    """x in the dtype that `like` points to."""
    if INTERPRETED and like.dtype.element_ty == tl.bfloat16:  # which cuts bits off
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
        x = bits.to(tl.float32, bitcast=True)
    return x.to(like.dtype.element_ty)


@triton.jit
def rows_of(tile, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr):
    """Of a tile of rows of a contiguous [N, D]: where it begins (a scalar; only it may need 64
    bits), the offsets from there, and which of them exist."""
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
    """Rows less their mean over their standard deviation, and one over that deviation; x must be
    zero beyond D, and so is the result."""
    mean = tl.sum(x, 1) / D
    centred = x - mean[:, None]
    if D != BLOCK_D:
        centred = tl.where((tl.arange(0, BLOCK_D) < D)[None, :], centred, 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / D + EPSILON)
    return centred * inverse[:, None], inverse


@triton.jit
def normalise_backward(gradient, normal, inverse, D: tl.constexpr):
    """The gradient for x, given that for its normalised rows. Not zero beyond D."""
    mean = tl.sum(gradient, 1) / D
    along = tl.sum(gradient * normal, 1) / D
    return (gradient - mean[:, None] - normal * along[:, None]) * inverse[:, None]


@triton.jit
def gelu(x):
    """GELU in its tanh form, x · sigmoid(2u) with u = sqrt(2/π) (x + 0.044715 x³)."""
    return x * tl.sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x))


@triton.jit
def gelu_slope(x):
    """The derivative of `gelu`."""
    gate = tl.sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x))
    return gate * (1 + x * (1 - gate) * 1.5957691216057308 * (1 + 0.134145 * x * x))
