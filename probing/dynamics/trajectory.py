"""The movement of the state from loop to loop: its norm, its increments and the cosines between
them.

The spectral norm of a loop's Jacobian says how much the loop amplifies small differences. The
spectral radius says how fast they decay when it is repeated. Both are found by power iteration.

Lengths are L2 norms of one token's state, averaged over the tokens of a prompt; ratios are taken
token by token. All in float64: far beyond b an increment is smaller than float32's rounding.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from looplab.evaluation.kept import Arrays
from looplab.models import Model
from looplab.models.loops.loop import Loop, LoopState, StepContext
from looplab.models.queries import ALL_TOKENS
from looplab.models.readers import PromptBatch
from looplab.tasks import Prompts

Map = Callable[[Tensor], Tensor]
MOST = 128  # iterations, all of whose vectors are stored
_EVERY = 8  # iterations between two estimates of the value
_ROUNDING = 1e-12  # of a vector's length: a smaller part, or increment, is rounding


class Trajectory(NamedTuple):
    """The states of a batch of prompts, [B, S, n_embd] each: the read-in; the initial state Y₀
    (zeros if the prompt is added, ones if it is multiplied, else the read-in, with positions in a
    standard model); the states after loop 1, 2, …, one at a time; and the loop Y ↦ M(Y), if all
    loops are the same."""

    read_in: Tensor
    start: Tensor
    states: Iterator[LoopState]
    one_loop: Map | None


def follow(model: Model, prompts: PromptBatch, loops: int) -> Trajectory:
    """The states of prompts in a model, loop by loop (layer by layer for a standard model). The
    last y of pairs is omitted: no prediction depends on it."""
    layout = model.reader.layout(prompts, None)
    kept = slice(-1) if layout is None else ALL_TOKENS
    unrolled = model.unroll(prompts, loops)
    read_in = next(unrolled)[0].stream[:, kept]
    states = (LoopState(state.stream[:, kept], state.raw[:, kept]) for state, _ in unrolled)
    with torch.no_grad():
        e = model.loop.prepare(read_in, layout)
        start = model.loop.start(e).stream
    # A loop with a bound has parameters for each step.
    repeats = model.loop.most_loops is None
    step = one_loop(model.loop, e, model.residual_scale()) if repeats else None
    return Trajectory(read_in, start, states, step)


def prompts_on(model: Model, prompts: Prompts) -> Prompts:
    """The prompts on the model's device, numbers in its precision; tokens of a text stay whole
    numbers."""
    on_device = prompts.to(model.read_in.weight.device)
    if not prompts.xs.is_floating_point():
        return on_device
    dtype = model.read_in.weight.dtype
    return Prompts(on_device.xs.to(dtype), on_device.ys.to(dtype))


class Movements:
    """Measurements of trajectories, batch by batch; no states are stored.

    Cosines, whose memory grows with the loops, cover the first `window` loops only.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._batches: list[Arrays] = []

    @torch.no_grad()
    def add(self, trajectory: Trajectory) -> Tensor:
        """Measure a batch up to its last loop; returns the last stream [B, S, n_embd]."""
        start = trajectory.start
        norms = [torch.linalg.vector_norm(trajectory.read_in, dim=-1)]
        raw_norms = norms[:]
        moves: list[Tensor] = []
        directions: list[Tensor] = []
        increments: list[Tensor] = []
        previous = start
        for loop, (stream, raw, _) in enumerate(trajectory.states, start=1):
            increment = stream - previous
            norms.append(torch.linalg.vector_norm(stream, dim=-1))
            raw_norms.append(torch.linalg.vector_norm(raw, dim=-1))
            moves.append(torch.linalg.vector_norm(increment, dim=-1))
            if loop <= self._window:
                increments.append(increment)
                moved = (moves[-1] > _ROUNDING * norms[-1])[..., None]
                directions.append(torch.where(moved, increment / moves[-1][..., None], 0.0))
            previous = stream
        norm = torch.stack(norms, dim=1)  # [B, loops + 1, S]
        move = torch.stack(moves, dim=1)  # [B, loops, S]
        by_token = {"raw": torch.stack(raw_norms, dim=1), "stream": norm}
        by_token |= {"absolute": move, "relative": move / norm[:, 1:]}
        if trajectory.one_loop is not None:
            # The distance that the next loop moves a state. Not of Y₀, which may be zero.
            last = torch.linalg.vector_norm(trajectory.one_loop(previous) - previous, dim=-1)
            gaps = torch.cat((move[:, 1:], last[:, None]), dim=1)
            by_token |= {"residual": gaps, "relative_residual": gaps / norm[:, 1:]}
        batch = {name: values.mean(-1) for name, values in by_token.items()}
        batch["cosines"] = cosines(directions)
        steps = torch.stack(increments, dim=1)
        batch["start"] = start.square().sum(-1).mean(1)
        batch["with_start"] = torch.einsum("btsd,bsd->bt", steps, start) / start.shape[1]
        # ⟨ΔY_t, ΔY_u⟩, means over tokens s: [B, T, T].
        batch["products"] = torch.einsum("btsd,busd->btu", steps, steps) / start.shape[1]
        self._batches.append({name: values.cpu().numpy() for name, values in batch.items()})
        return previous

    def arrays(self) -> Arrays:
        """Prompt by prompt, with T loops: `raw` and `stream` [P, T + 1], the norms from index 0,
        the read-in; `absolute` and `relative` [P, T], ‖Yₜ − Yₜ₋₁‖ and the same over ‖Yₜ‖ from
        loop 1; `cosines` [P, window, window] between increments, by loop, and means over tokens of
        their inner `products`, of those `with_start` Y₀ [P, window] and of ‖Y₀‖², `start` [P]; and
        if all loops are the same `residual` and `relative_residual` [P, T], ‖M(Yₜ) − Yₜ‖ and the
        same over ‖Yₜ‖ from loop 1."""
        arrays = {}
        for name in self._batches[0]:
            arrays[name] = np.concatenate([batch[name] for batch in self._batches])
        return arrays


def cosines(directions: Iterable[Tensor]) -> Tensor:
    """The cosines between T increments' directions [B, S, n_embd], averaged over tokens:
    [B, T, T]. A token counts if both increments have a direction (are not zero); nan if no token
    does."""
    # [B, T, S, n_embd]; as [B, T, S · n_embd] one product sums over tokens and numbers.
    units = torch.stack(list(directions), dim=1)
    valid = units.any(-1).to(units.dtype)
    units = units.flatten(2)
    return (units @ units.mT) / (valid @ valid.mT)


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
            # Step 1, as some loops begin otherwise at step 0.
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
        # u ↦ Jᵀ u is linear: its derivative by u does not depend on where it is taken.
        dummy = torch.zeros_like(output, requires_grad=True)
        (vjp_of_dummy,) = torch.autograd.grad(output, point, dummy, create_graph=True)

    def jvp(v: Tensor) -> Tensor:
        return torch.autograd.grad(vjp_of_dummy, dummy, v, retain_graph=True)[0]

    def vjp(u: Tensor) -> Tensor:
        return torch.autograd.grad(output, point, u, retain_graph=True)[0]

    return jvp, vjp


def spectral_norm(function: Map, point: Tensor, generator: Generator) -> Estimate:
    """The largest singular value of the Jacobian J of `function` for each prompt of `point`
    [B, …]: the root of the largest eigenvalue of JᵀJ.

    A prompt's output must depend on its own input only. Stops when no value changes by more than
    1e-6, or after `MOST` iterations.
    """
    jvp, vjp = products(function, point)
    # A root changes half as much as its square.
    squares, change, count = _largest_eigenvalue(lambda v: vjp(jvp(v)), point, generator, 2e-6)
    return Estimate(squares.sqrt(), change / 2, count)


def spectral_radius(function: Map, point: Tensor, generator: Generator) -> Estimate:
    """The largest absolute eigenvalue of the Jacobian of `function` for each prompt of `point`
    [B, …], which may be one of a complex pair. As `spectral_norm`, but that it stops at 1e-4.

    If it is below 1 at a fixed point, repeating the function converges to it from nearby. In the
    long run the distance shrinks by this factor per iteration.
    """
    jvp, _ = products(function, point)
    return _largest_eigenvalue(jvp, point, generator, 1e-4)


def _largest_eigenvalue(
    product: Map, like: Tensor, generator: Generator, tolerance: float
) -> Estimate:
    """The largest absolute eigenvalue of a linear map of each prompt [B, …], by power iteration.

    From the last vector alone it would converge slowly, and not at all for a complex pair. From all
    vectors it converges fast: the map is projected onto their span, and the eigenvalue is that of
    the small matrix of the projection (Arnoldi 1951; for symmetric maps Lanczos 1950).
    """
    start = torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like.device)
    first = start.flatten(1)
    basis = first.new_zeros(len(first), MOST + 1, first.shape[1])
    basis[:, 0] = first / torch.linalg.vector_norm(first, dim=1, keepdim=True)
    projected = first.new_zeros(len(first), MOST + 1, MOST)
    values = change = first.new_full((len(first),), torch.inf)
    count = 0
    while count < MOST and not bool((change <= tolerance).all()):
        image = product(basis[:, count].view_as(start)).flatten(1)
        count += 1
        # Arnoldi: in exact arithmetic the image is basis @ projected[:, count - 1].
        coefficients, length, basis[:, count] = _decompose(image, basis[:, :count])
        projected[:, :count, count - 1] = coefficients
        projected[:, count, count - 1] = length
        if count % _EVERY == 0 or count == MOST:
            previous = values
            small = projected[:, :count, :count].cpu()  # GPUs are slower
            # Ritz values: the eigenvalues of the map within the span of all vectors so far.
            values = torch.linalg.eigvals(small).abs().amax(1).to(projected.device)
            change = (values - previous).abs() / values.clamp_min(torch.finfo(values.dtype).tiny)
    return Estimate(values, change, count)


def _decompose(vectors: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The coefficients [B, m] of each prompt's vector [B, N] in its orthonormal basis [B, m, N],
    and the residual's length [B] and direction [B, N], zero if the residual is rounding."""
    # As rows: a row times a matrix is several times as fast as a matrix times a column.
    rows = vectors[:, None]
    coefficients = basis.new_zeros(len(basis), 1, basis.shape[1])
    for _ in range(2):  # the second pass removes the rounding of the first
        correction = rows @ basis.mT
        rows = rows - correction @ basis
        coefficients = coefficients + correction
    residual = rows.squeeze(1)
    length = torch.linalg.vector_norm(residual, dim=1)
    valid = length > _ROUNDING * torch.linalg.vector_norm(vectors, dim=1)
    direction = torch.where(valid[:, None], residual / length[:, None], 0.0)
    return coefficients.squeeze(1), length, direction
