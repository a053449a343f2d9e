"""How much one loop stretches small differences, and how fast they die out when it is repeated: the
spectral norm and the spectral radius of its Jacobian, by products with vectors alone.

estimate = spectral_radius(one_loop(model.loop, e), stream, Generator().manual_seed(0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from models.loop import Loop, LoopState

Map = Callable[[Tensor], Tensor]
_MOST = 400  # iterations
_NORM_TOLERANCE, _RADIUS_TOLERANCE = 1e-6, 1e-3
_FIRST, _EVERY = 32, 8  # iterations after which, and then between which, a radius is judged


class Estimate(NamedTuple):
    """One number a prompt, [B]; how much it still changed at the end, relative to itself, [B]; and
    the iterations made."""

    values: Tensor
    change: Tensor
    iterations: int


def one_loop(loop: Loop, e: Tensor) -> Map:
    """Y ↦ the stream after one loop from Y, for a loop whose steps are all the same; e [B, S,
    n_embd] is what `loop.prepare` made."""

    def step(y: Tensor) -> Tensor:
        # Fused attention has a first derivative, but no second one.
        with sdpa_kernel(SDPBackend.MATH):
            return loop.step(LoopState(y, y), e, 0).stream

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
    most: int = _MOST,
) -> Estimate:
    """The largest singular value of the Jacobian J of `function` for each prompt of `at` [B, …],
    by power iteration on JᵀJ.

    A prompt's output may depend on its own input alone. Ends where no value changes by more than
    `tolerance`, or after `most` iterations.
    """
    direction, _ = _normed(_drawn(at, generator))
    push, pull = products(function, at)
    values = change = at.new_full(at.shape[:1], torch.inf)
    iteration = 0
    while iteration < most and not bool((change <= tolerance).all()):
        iteration += 1
        before = values
        image = push(direction)
        _, values = _normed(image)
        direction, _ = _normed(pull(image))
        change = (values / before - 1).abs() if iteration > 1 else change
    return Estimate(values, change, iteration)


def spectral_radius(
    function: Map,
    at: Tensor,
    generator: Generator,
    tolerance: float = _RADIUS_TOLERANCE,
    most: int = _MOST,
) -> Estimate:
    """The largest absolute eigenvalue of the Jacobian of `function` for each prompt of `at` [B, …],
    by power iteration.

    Below 1 at a fixed point, repeating the function comes back to it from nearby, and the distance
    shrinks by this factor a time. Where the eigenvalue is one of a complex pair, the growth of the
    vector swings for ever: the value is its geometric mean over the last half of the iterations,
    and the change that between the two quarters of these. Ends where no change is above
    `tolerance`, or after `most` iterations.
    """
    direction, _ = _normed(_drawn(at, generator))
    push, _ = products(function, at)
    growth: list[Tensor] = []
    values = change = at.new_full(at.shape[:1], torch.inf)
    while len(growth) < most and not bool((change <= tolerance).all()):
        direction, grown = _normed(push(direction))
        growth.append(grown.log())
        made = len(growth)
        if made == most or (made >= _FIRST and made % _EVERY == 0):
            quarter = max(made // 4, 1)
            last = torch.stack(growth[-quarter:]).mean(0)
            earlier = torch.stack(growth[-2 * quarter : -quarter]).mean(0)
            values = ((last + earlier) / 2).exp()
            change = (last - earlier).expm1().abs()
    return Estimate(values, change, len(growth))


def _drawn(like: Tensor, generator: Generator) -> Tensor:
    """Standard normal numbers, drawn where the generator is."""
    drawn = torch.randn(like.shape, generator=generator, dtype=like.dtype)
    return drawn.to(like.device)


def _normed(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Each prompt's vector [B, …] at length 1, and its length [B], above zero."""
    lengths = torch.linalg.vector_norm(vectors.flatten(1), dim=1)
    lengths = lengths.clamp_min(torch.finfo(vectors.dtype).tiny)
    return vectors / lengths.view(-1, *[1] * (vectors.ndim - 1)), lengths
