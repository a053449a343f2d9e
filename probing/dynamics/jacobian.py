"""How much one loop stretches small differences, and how fast they die out when it is repeated: the
spectral norm and the spectral radius of its Jacobian, by power iteration.

estimate = spectral_radius(one_loop(model.loop, e), stream, Generator().manual_seed(0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from reloop.models.loops.loop import Loop, LoopState, StepContext

Map = Callable[[Tensor], Tensor]
MOST_ITERATIONS = 128  # whose vectors are all kept
_NORM_TOLERANCE, _RADIUS_TOLERANCE = 1e-6, 1e-4
_EVERY = 8  # iterations between two readings of the value
_NOTHING = 1e-12  # of a vector: what is left of it by rounding alone


class Estimate(NamedTuple):
    """One number a prompt, [B]; how much it changed over the last iterations (eight of them, where
    there were that many), relative to itself, [B]; and the iterations made."""

    values: Tensor
    change: Tensor
    iterations: int


def one_loop(loop: Loop, e: Tensor, scale: float = 1.0) -> Map:
    """Y ↦ the stream after one loop from Y, for a loop whose steps after the first are all the
    same; e [B, S, n_embd] is what `loop.prepare` made, `scale` the residual branches'."""

    def step(y: Tensor) -> Tensor:
        # Fused attention has a first derivative, but no second one.
        with sdpa_kernel(SDPBackend.MATH):
            return loop.step(LoopState(y, y), e, 1, StepContext(scale)).stream

    return step


def products(function: Map, at: Tensor) -> tuple[Map, Map]:
    """v ↦ J v and u ↦ Jᵀ u for the Jacobian J of `function` at `at`, of whose shape all are.

    The function is run once and its graph kept. Jᵀ u is a backward pass; it is linear in u, and J v
    the backward pass through that.
    """
    at = at.detach().requires_grad_()
    with torch.enable_grad():
        output = function(at)
        dummy = torch.zeros_like(output, requires_grad=True)
        (pulled,) = torch.autograd.grad(output, at, dummy, create_graph=True)

    def push(direction: Tensor) -> Tensor:
        return torch.autograd.grad(pulled, dummy, direction, retain_graph=True)[0]

    def pull(direction: Tensor) -> Tensor:
        return torch.autograd.grad(output, at, direction, retain_graph=True)[0]

    return push, pull


def spectral_norm(
    function: Map,
    at: Tensor,
    generator: Generator,
    tolerance: float = _NORM_TOLERANCE,
    most: int = MOST_ITERATIONS,
) -> Estimate:
    """The largest singular value of the Jacobian J of `function` for each prompt of `at` [B, …]:
    the root of the largest eigenvalue of JᵀJ.

    A prompt's output may depend on its own input alone. Ends where no value changes by more than
    `tolerance` any more, or after `most` iterations.
    """
    push, pull = products(function, at)
    squares = _largest(lambda v: pull(push(v)), _drawn(at, generator), 2 * tolerance, most)
    # A root changes half as much as its square.
    return Estimate(squares.values.sqrt(), squares.change / 2, squares.iterations)


def spectral_radius(
    function: Map,
    at: Tensor,
    generator: Generator,
    tolerance: float = _RADIUS_TOLERANCE,
    most: int = MOST_ITERATIONS,
) -> Estimate:
    """The largest absolute eigenvalue of the Jacobian of `function` for each prompt of `at` [B, …],
    which may be one of a complex pair. Prompts and end as for `spectral_norm`.

    Below 1 at a fixed point, repeating the function comes back to it from nearby, and the distance
    shrinks by this factor a time in the long run.
    """
    push, _ = products(function, at)
    return _largest(push, _drawn(at, generator), tolerance, most)


def _largest(product: Map, start: Tensor, tolerance: float, most: int) -> Estimate:
    """The largest absolute eigenvalue of a linear map of each prompt [B, …], by power iteration.

    Its last vector alone would say it slowly, and never where it is one of a complex pair. All
    vectors together say it soon: the map is projected onto their span, and the eigenvalue is that
    of the small matrix which it is there (Arnoldi 1951; for symmetric maps Lanczos 1950).
    """
    first = start.flatten(1)
    basis = first.new_zeros(len(first), most + 1, first.shape[1])
    basis[:, 0] = first / torch.linalg.vector_norm(first, dim=1, keepdim=True)
    projected = first.new_zeros(len(first), most + 1, most)
    values = change = first.new_full((len(first),), torch.inf)
    made = 0
    while made < most and not bool((change <= tolerance).all()):
        image = product(basis[:, made].view_as(start)).flatten(1)
        made += 1
        parts, length, basis[:, made] = _split(image, basis[:, :made])
        projected[:, :made, made - 1], projected[:, made, made - 1] = parts, length
        if made % _EVERY == 0 or made == most:
            before = values
            values = _radius(projected[:, :made, :made])
            change = (values - before).abs() / values.clamp_min(torch.finfo(values.dtype).tiny)
    return Estimate(values, change, made)


def _split(vectors: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each prompt's vector [B, N] in terms of its orthonormal basis [B, m, N], [B, m]; and what is
    left of it: its length [B] and its direction [B, N], zero where only rounding is left."""
    # As rows: a row times a matrix is several times as fast as a matrix times a column.
    rows, parts = vectors[:, None], basis.new_zeros(len(basis), 1, basis.shape[1])
    for _ in range(2):  # the second time takes away what the first one's rounding left
        more = rows @ basis.mT
        rows, parts = rows - more @ basis, parts + more
    left = rows.squeeze(1)
    length = torch.linalg.vector_norm(left, dim=1)
    known = length > _NOTHING * torch.linalg.vector_norm(vectors, dim=1)
    direction = torch.where(known[:, None], left / length[:, None], 0.0)
    return parts.squeeze(1), length, direction


def _radius(matrices: Tensor) -> Tensor:
    """The largest absolute eigenvalue of each small matrix. On the CPU: GPUs are slow at it."""
    return torch.linalg.eigvals(matrices.cpu()).abs().amax(1).to(matrices.device)


def _drawn(like: Tensor, generator: Generator) -> Tensor:
    """Standard normal numbers, drawn where the generator is."""
    drawn = torch.randn(like.shape, generator=generator, dtype=like.dtype)
    return drawn.to(like.device)
