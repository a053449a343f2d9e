"""Maps whose dynamics are known, and the models' own states."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from looplab.models.loops.loop import LoopState
from looplab.probing.dynamics.trajectory import Movements, Trajectory, follow
from tests.models.small import as_double, draw_prompts, make_model

LOOPS = 9


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def shrinking(factor: float, centre: Tensor, start: Tensor, loops: int = LOOPS) -> Trajectory:
    """Y ↦ centre + factor (Y − centre), whose fixed point is the centre; raw is three times it."""

    def one_loop(y: Tensor) -> Tensor:
        return centre + factor * (y - centre)

    def states() -> Iterator[LoopState]:
        y = start
        for _ in range(loops):
            y = one_loop(y)
            yield LoopState(y, 3 * y)

    return Trajectory(start, start, states(), one_loop)


def movements(trajectory: Trajectory, near: int = LOOPS) -> dict[str, np.ndarray]:
    found = Movements(near)
    found.add(trajectory)
    return found.arrays()


@pytest.mark.parametrize("factor", [0.5, -0.7])
def test_a_map_with_a_fixed_point_shrinks_by_its_factor(factor: float) -> None:
    centre, start = normal(2, 5, 4), normal(2, 5, 4, seed=1)
    found = movements(shrinking(factor, centre, start))
    first = (start - centre).norm(dim=-1) * abs(factor - 1)
    expected = first.mean(1).numpy()[:, None] * abs(factor) ** np.arange(LOOPS)
    np.testing.assert_allclose(found["absolute"], expected, rtol=1e-12)
    # Ratios token by token: what moves from loop t to the next, over what is there at either.
    for loop in (1, LOOPS - 1, LOOPS):
        moves = first * abs(factor) ** loop
        here, later = (
            (centre + factor**at * (start - centre)).norm(dim=-1) for at in (loop, loop + 1)
        )
        np.testing.assert_allclose(found["residual"][:, loop - 1], moves.mean(1))
        ratio = found["relative_residual"][:, loop - 1]
        np.testing.assert_allclose(ratio, (moves / here).mean(1))
        if loop < LOOPS:
            np.testing.assert_allclose(found["relative"][:, loop], (moves / later).mean(1))
    assert found["residual"].shape == found["relative_residual"].shape == (2, LOOPS)
    # Increments lie on one line: all one way, or to and fro.
    signs = np.sign(factor) ** np.arange(LOOPS)
    np.testing.assert_allclose(found["cosines"], np.stack([np.outer(signs, signs)] * 2))


def test_increments_begin_where_the_loop_does_and_angles_end_where_asked() -> None:
    states = normal(4, 2, 5, 3)  # the start, and after three loops
    steps = (LoopState(y, y) for y in states[1:])
    found = movements(Trajectory(normal(2, 5, 3, seed=1), states[0], steps, None), near=2)
    torch.testing.assert_close(
        torch.tensor(found["absolute"]), states.diff(dim=0).norm(dim=-1).mean(2).T
    )
    assert found["cosines"].shape == (2, 2, 2)
    assert "residual" not in found
    first, second, _ = states.diff(dim=0)
    cosine = torch.cosine_similarity(first, second, dim=-1).mean(1)
    np.testing.assert_allclose(found["cosines"][:, 0, 1], cosine)


@pytest.mark.parametrize("injection", ["add", "multiply", "none", "standard"])
def test_a_models_states_are_those_of_its_steps(injection: str) -> None:
    """From what its loop starts from, with the read-in at index 0, without the last y."""
    families = {"none": make_model("tied"), "standard": make_model("standard")}
    model = (families.get(injection) or make_model(injection=injection)).double()
    prompts = as_double(draw_prompts())
    trajectory = follow(model, prompts, 3)
    states = list(trajectory.states)
    assert trajectory.read_in.shape == (3, 11, 16)
    torch.testing.assert_close(trajectory.read_in[:, ::2], model.read_in(prompts.xs))
    first = {
        "add": torch.zeros_like(trajectory.read_in),
        "multiply": torch.ones_like(trajectory.read_in),
        "none": trajectory.read_in,
        "standard": trajectory.read_in + model.get_parameter("loop.positions")[:11],
    }[injection]
    torch.testing.assert_close(trajectory.start, first)
    state, e = LoopState(first, first), model.loop.prepare(trajectory.read_in)
    for t, found in enumerate(states):
        if trajectory.one_loop is not None:
            torch.testing.assert_close(trajectory.one_loop(state.stream), found.stream)
        state = model.loop.step(state, e, t)
        torch.testing.assert_close(found.stream, state.stream)
        torch.testing.assert_close(found.raw, state.raw)
    assert len(states) == 3
    assert (trajectory.one_loop is None) == (injection == "standard")
