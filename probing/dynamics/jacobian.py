"""How much one loop amplifies small differences, and how fast they decay when it is repeated: the
spectral norm and the spectral radius of its Jacobian, by power iteration.

estimate = spectral_radius(one_loop(model.loop, e), stream, Generator().manual_seed(0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from looplab.models.loops.loop import Loop, LoopState, StepContext

Map = Callable[[Tensor], Tensor]
MOST = 128  # iterations, all of whose vectors are stored
_EVERY = 8  # iterations between two estimates of the value
_ROUNDING = 1e-12  # of a vector's length: a smaller residual is rounding


class Estimate(NamedTuple):
    """One number for each prompt, [B]; its relative change over the last eight iterations (or
    all, if fewer), [B]; and the number of iterations."""

    values: Tensor
    change: Tensor
    iterations: int


def one_loop(loop: Loop, e: Tensor, scale: float = 1.0) -> Map:
    """Y ↦ the stream after one loop from Y, for a loop whose steps after the first are all the
    same; e [B, S, n_embd] is the result of `loop.prepare`, `scale` that of the residual
    branches."""

    def step(y: Tensor) -> Tensor:
        # Fused attention has no second derivative.
        with sdpa_kernel(SDPBackend.MATH):
            return loop.step(LoopState(y, y), e, 1, StepContext(scale)).stream

    return step


def products(function: Map, point: Tensor) -> tuple[Map, Map]:
    """v ↦ J v and u ↦ Jᵀ u for the Jacobian J of `function` at `point`; all tensors have its shape.

    The function runs once and its graph is stored. Jᵀ u is a backward pass; it is linear in u, and
    J v is the backward pass through it.
    """
    point = point.detach().requires_grad_()
    with torch.enable_grad():
        output = function(point)
        dummy = torch.zeros_like(output, requires_grad=True)
        (vjp_of_dummy,) = torch.autograd.grad(output, point, dummy, create_graph=True)
    return (
        lambda v: torch.autograd.grad(vjp_of_dummy, dummy, v, retain_graph=True)[0],
        lambda u: torch.autograd.grad(output, point, u, retain_graph=True)[0],
    )


def spectral_norm(
    function: Map, point: Tensor, generator: Generator, tolerance: float = 1e-6, most: int = MOST
) -> Estimate:
    """The largest singular value of the Jacobian J of `function` for each prompt of `point`
    [B, …]: the root of the largest eigenvalue of JᵀJ.

    A prompt's output must depend on its own input only. Stops when no value changes by more than
    `tolerance`, or after `most` iterations.
    """
    jvp, vjp = products(function, point)
    # A root changes half as much as its square.
    limits = (2 * tolerance, most)
    squares, change, count = _largest_eigenvalue(lambda v: vjp(jvp(v)), point, generator, *limits)
    return Estimate(squares.sqrt(), change / 2, count)


def spectral_radius(
    function: Map, point: Tensor, generator: Generator, tolerance: float = 1e-4, most: int = MOST
) -> Estimate:
    """The largest absolute eigenvalue of the Jacobian of `function` for each prompt of `point`
    [B, …], which may be one of a complex pair. Prompts and stopping as for `spectral_norm`.

    If it is below 1 at a fixed point, repeating the function converges to it from nearby, and the
    distance shrinks by this factor per iteration in the long run.
    """
    jvp, _ = products(function, point)
    return _largest_eigenvalue(jvp, point, generator, tolerance, most)


def _largest_eigenvalue(
    product: Map, like: Tensor, generator: Generator, tolerance: float, most: int
) -> Estimate:
    """The largest absolute eigenvalue of a linear map of each prompt [B, …], by power iteration.

    From the last vector alone it would converge slowly, and not at all for a complex pair. From all
    vectors it converges fast: the map is projected onto their span, and the eigenvalue is that of
    the small matrix of the projection (Arnoldi 1951; for symmetric maps Lanczos 1950).
    """
    start = torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like.device)
    first = start.flatten(1)
    basis = first.new_zeros(len(first), most + 1, first.shape[1])
    basis[:, 0] = first / torch.linalg.vector_norm(first, dim=1, keepdim=True)
    projected = first.new_zeros(len(first), most + 1, most)
    values = change = first.new_full((len(first),), torch.inf)
    count = 0
    while count < most and not bool((change <= tolerance).all()):
        image = product(basis[:, count].view_as(start)).flatten(1)
        count += 1
        coefficients, length, basis[:, count] = _decompose(image, basis[:, :count])
        projected[:, :count, count - 1], projected[:, count, count - 1] = coefficients, length
        if count % _EVERY == 0 or count == most:
            previous = values
            small = projected[:, :count, :count].cpu()  # GPUs are slower
            values = torch.linalg.eigvals(small).abs().amax(1).to(projected.device)
            change = (values - previous).abs() / values.clamp_min(torch.finfo(values.dtype).tiny)
    return Estimate(values, change, count)


def _decompose(vectors: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The coefficients [B, m] of each prompt's vector [B, N] in its orthonormal basis [B, m, N],
    and the residual's length [B] and direction [B, N], zero if the residual is rounding."""
    # As rows: a row times a matrix is several times as fast as a matrix times a column.
    rows, coefficients = vectors[:, None], basis.new_zeros(len(basis), 1, basis.shape[1])
    for _ in range(2):  # the second pass removes the rounding of the first
        correction = rows @ basis.mT
        rows, coefficients = rows - correction @ basis, coefficients + correction
    residual = rows.squeeze(1)
    length = torch.linalg.vector_norm(residual, dim=1)
    valid = length > _ROUNDING * torch.linalg.vector_norm(vectors, dim=1)
    direction = torch.where(valid[:, None], residual / length[:, None], 0.0)
    return coefficients.squeeze(1), length, direction
