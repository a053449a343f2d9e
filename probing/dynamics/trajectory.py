"""How the state moves from loop to loop: its norm, its increments and the angles between them.

Lengths are L2 norms of one token's state, averaged over the tokens of a prompt; ratios are taken
token by token. All in float64: far beyond b an increment is smaller than float32's rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from reloop.evaluation.cache import Arrays
from reloop.models import Model
from reloop.models.loops.loop import LoopState
from reloop.models.model import PromptBatch

from .effective_rank import StateSpread
from .jacobian import Map, one_loop

_ROUNDING = 1e-12  # of the state: a smaller increment is rounding, and has no direction


class Trajectory(NamedTuple):
    """The states of a batch of prompts, [B, S, n_embd] each: the read-in, what the loops start from
    (Y₀: zeros where the prompt is added, ones where it is multiplied, else the read-in, in a
    standard model with its positions), and the states after loop 1, 2, …, one at a time; and Y ↦
    M(Y), the loop, where all loops are the same."""

    read_in: Tensor
    start: Tensor
    states: Iterator[LoopState]
    one_loop: Map | None


def follow(model: Model, prompts: PromptBatch, loops: int) -> Trajectory:
    """The states of prompts in a model, loop by loop (layer by layer for a standard model). The
    last y is left out: no prediction depends on it."""
    steps = (
        LoopState(state.stream[:, :-1], state.raw[:, :-1])
        for state, _ in model.unroll(prompts, loops)
    )
    read_in = next(steps).stream
    with torch.no_grad():
        e = model.loop.prepare(read_in)
        start = model.loop.start(e).stream
    own = model.loop.most_loops is not None  # parameters of its own for each step
    repeated = None if own else one_loop(model.loop, e, model.residual_scale())
    return Trajectory(read_in, start, steps, repeated)


class Movements:
    """What is measured of trajectories, batch after batch; nothing of their states is kept.

    Angles and ranks, whose memory grows with the loops, are taken over the first `near` only.
    """

    def __init__(self, near: int) -> None:
        self._near = near
        self._batches: list[Arrays] = []
        self._spread = StateSpread()

    @torch.no_grad()
    def add(self, trajectory: Trajectory) -> Tensor:
        """Follow a batch to its end; its last stream [B, S, n_embd]."""
        before, read_in = trajectory.start, _lengths(trajectory.read_in)
        rows: dict[str, list[Tensor]] = {"raw": [read_in], "stream": [read_in]}
        rows |= {"absolute": [], "relative": []}
        directions: list[Tensor] = []
        self._spread.add(0, trajectory.read_in[:, ::2])
        for loop, (stream, raw, _) in enumerate(trajectory.states, start=1):
            length, increment = _lengths(stream), stream - before
            moved = _lengths(increment)
            rows["raw"].append(_lengths(raw))
            rows["stream"].append(length)
            rows["absolute"].append(moved)
            rows["relative"].append(moved / length)
            if loop <= self._near:
                directions.append(_directions(increment, moved > _ROUNDING * length))
                self._spread.add(loop, stream[:, ::2])
            before = stream
        if trajectory.one_loop is not None:
            # How far the next loop moves a state. Not at Y₀, which may be zero.
            gaps = [*rows["absolute"][1:], _lengths(trajectory.one_loop(before) - before)]
            rows["residual"] = gaps
            rows["relative_residual"] = [
                gap / length for gap, length in zip(gaps, rows["stream"][1:], strict=True)
            ]
        arrays = {name: _by_prompt(values) for name, values in rows.items()}
        self._batches.append(arrays | {"cosines": cosines(directions).cpu().numpy()})
        return before

    def arrays(self) -> Arrays:
        """Prompt by prompt, with T loops: `raw` and `stream` [P, T + 1], the norms from index 0,
        the read-in; `absolute` and `relative` [P, T], ‖Yₜ − Yₜ₋₁‖ and the same over ‖Yₜ‖ from
        loop 1; `cosines` [P, near, near] between increments, counted by the loop that makes them;
        and where all loops are the same `residual` and `relative_residual` [P, T], ‖M(Yₜ) − Yₜ‖
        and the same over ‖Yₜ‖ from loop 1."""
        names = self._batches[0]
        return {name: np.concatenate([batch[name] for batch in self._batches]) for name in names}

    def effective_ranks(self) -> list[float]:
        """Of the states at the x tokens, from index 0, the read-in, to `near`."""
        return self._spread.by_loop()


def cosines(directions: Iterable[Tensor]) -> Tensor:
    """The cosines between T increments' directions [B, S, n_embd], averaged over tokens:
    [B, T, T]. A token counts where both increments have a direction (are not zero); nan where no
    token does."""
    units = torch.stack(list(directions), dim=1)
    known = units.any(-1).to(units.dtype)
    units = units.flatten(2)
    return (units @ units.mT) / (known @ known.mT)


def _directions(increment: Tensor, known: Tensor) -> Tensor:
    """The increment [B, S, n_embd] token by token at length 1; zero where that is not `known`."""
    unit = increment / _lengths(increment)[..., None]
    return torch.where(known[..., None], unit, 0.0)


def _lengths(states: Tensor) -> Tensor:
    return torch.linalg.vector_norm(states, dim=-1)


def _by_prompt(values: list[Tensor]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Means over tokens of what was measured loop by loop, [B, loops]."""
    return torch.stack([each.mean(1) for each in values], dim=1).cpu().numpy()
