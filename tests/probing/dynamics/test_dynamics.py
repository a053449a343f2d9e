"""Maps whose dynamics are known, the models' own states, and plain values of measurements made by
hand."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from looplab.evaluation.bootstrap import numbers
from looplab.models.loops.loop import LoopState
from looplab.probing.dynamics.measure import contraction, summary
from looplab.probing.dynamics.trajectory import Estimate, Movements, Trajectory, follow
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
    increments = states.diff(dim=0)
    torch.testing.assert_close(torch.tensor(found["absolute"]), increments.norm(dim=-1).mean(2).T)
    assert found["cosines"].shape == (2, 2, 2)
    assert "residual" not in found
    first, second, _ = increments
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


NAN = np.nan
PROMPTS, FEW_LOOPS, NEAR = 40, 3, 2
RNG = np.random.default_rng(0)
ARRAYS = {
    "raw": RNG.random((PROMPTS, FEW_LOOPS + 1)),
    "stream": RNG.random((PROMPTS, FEW_LOOPS + 1)),
    "absolute": RNG.random((PROMPTS, FEW_LOOPS)),
    "relative": RNG.random((PROMPTS, FEW_LOOPS)),
    "cosines": RNG.random((PROMPTS, NEAR, NEAR)),
    "residual": RNG.random((PROMPTS, FEW_LOOPS)),
    "relative_residual": RNG.random((PROMPTS, FEW_LOOPS)),
}


class Measured(Movements):
    """What is given."""

    def __init__(self, **arrays: Any) -> None:
        self._given = ARRAYS | arrays

    def arrays(self) -> dict[str, Any]:
        return {name: values for name, values in self._given.items() if values is not None}


def test_prompts_that_rest_are_told_from_those_that_do_not() -> None:
    """A quarter rests at the end, of which all but one have moved before."""
    relative = np.full((PROMPTS, FEW_LOOPS), 0.5) + np.arange(PROMPTS)[:, None]
    relative[:10, -1] = 9e-7
    relative[10, -1], relative[0] = 2e-6, 9e-7
    found = summary(Measured(relative_residual=relative), seed=0)["residual"]
    assert found["at_rest"]["below"] == 1e-6
    assert found["at_rest"]["mean"] == [0.25]
    (low,), (high,) = (numbers(found["at_rest"][part]) for part in ("low", "high"))
    assert 0.1 < low < 0.25 < high < 0.4
    parts = [numbers(found["over_prompts"][p]) for p in ("percentile_5", "median", "percentile_95")]
    np.testing.assert_allclose(parts, np.quantile(relative, (0.05, 0.5, 0.95), 0))


def test_pairs_are_those_of_different_increments_that_all_have_an_angle() -> None:
    cosines = np.ones((4, 3, 3))
    cosines[:, 0, 1] = cosines[:, 1, 0] = [0.1, 0.2, 0.3, 0.4]
    cosines[:, 1, 2] = cosines[:, 2, 1] = [0.8, 0.8, NAN, 0.8]
    cosines[:, 0, 2] = cosines[:, 2, 0] = [0.5, 0.6, 0.7, 0.8]
    found = summary(Measured(cosines=cosines), seed=0)["cosines"]
    assert found["mean"][0] == pytest.approx([1, 0.25, 0.65])
    assert found["mean"][2] == [pytest.approx(0.65), None, 1]
    assert found["pairs"] is not None
    assert found["pairs"]["mean"] == [pytest.approx(0.45)]
    resting = np.where(np.eye(3, dtype=bool), 1.0, NAN)
    assert summary(Measured(cosines=resting[None]), seed=0)["cosines"]["pairs"] is None


def test_contraction_tells_norm_from_radius() -> None:
    """Over batches; a loop may stretch at once and yet come to rest."""
    norms = Estimate(torch.tensor([2.0, 3.0]), torch.tensor([1e-7, 1e-9]), 30)
    radii = Estimate(torch.tensor([0.5, 1.5]), torch.tensor([1e-4, 2e-4]), 40)
    more = Estimate(torch.tensor([0.75]), torch.tensor([1e-3]), 32)
    found = contraction([norms, more], [radii, more], seed=0)
    assert found["spectral_norm"]["by_prompt"] == [2.0, 3.0, 0.75]
    assert found["spectral_norm"]["mean"] == [pytest.approx(5.75 / 3)]
    assert found["spectral_radius"]["by_prompt"] == [0.5, 1.5, 0.75]
    assert found["spectral_radius"]["iterations"] == 40
    assert found["spectral_radius"]["remaining_change"] == pytest.approx(1e-3)
    assert found["below_one"]["mean"] == [pytest.approx(2 / 3)]
