"""Halfspaces: their inputs, which are as those of tables, and their labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reloop.tasks import make_task
from tests.tasks.spy import sample_with_parameters
from tests.tasks.statistics import assert_frequencies, assert_mean, generator


@pytest.mark.parametrize("dims", [4, 6])
def test_each_number_of_features_is_as_likely(dims: int) -> None:
    """In any of the visible places alike, the same in all rows of a prompt."""
    task = make_task("halfspaces", 6, settings={"vary_features": True})
    there = task.sample(generator(), batch=2000, points=3, dims=dims).xs != 0
    assert torch.equal(there, there[:, :1].expand_as(there))
    counts = there[:, 0].sum(1)
    assert_frequencies(counts[:, None] == torch.arange(1, dims + 1), 1 / dims)
    for count in range(1, dims + 1):
        places = there[counts == count, 0]
        assert not places[:, : 6 - dims].any()
        if count < dims:
            assert_frequencies(places[:, 6 - dims :], count / dims)


def test_features_share_a_factor_and_keep_their_variance() -> None:
    """Without it they are independent; with it, those of one prompt are not."""
    mean_square = []
    for shared in (0.0, 1.0):
        task = make_task("halfspaces", 5, settings={"shared_factor": shared})
        xs = task.sample(generator(), batch=300, points=200).xs.double().numpy()
        assert_mean(torch.from_numpy((xs**2).mean((1, 2))), 1.0)
        products = np.einsum("bni,bnj->bij", xs, xs)[:, ~np.eye(5, dtype=bool)] / 200
        mean_square.append((products**2).mean())
    assert mean_square[0] == pytest.approx(1 / 200, rel=0.1)
    # E[u²/(1+u²)] for u ~ N(0, 1) is 0.3443; its square is the mean of ρ².
    assert mean_square[1] == pytest.approx(0.3443**2 + (1 - 0.3443**2) / 200, rel=0.15)


def test_labels_say_on_which_side_a_row_lies() -> None:
    task = make_task("halfspaces", 5, settings={"threshold": 0.7, "vary_features": True})
    prompts, (shown, weights, thresholds) = sample_with_parameters(task, batch=400, points=7)
    xs, w = prompts.xs.double().numpy(), weights.double().numpy()
    above = np.einsum("bnd,bd->bn", xs, w) > thresholds.double().numpy()
    np.testing.assert_array_equal(prompts.ys.numpy(), np.where(above, 1, -1))
    torch.testing.assert_close(weights.norm(dim=1), torch.ones(400))
    assert torch.equal(weights != 0, shown == 1)
    assert thresholds.std().item() == pytest.approx(0.7, rel=0.1)


@pytest.mark.parametrize(("dims", "grown"), [(1, 0.0), (3, 0.5), (5, 1.0)])
def test_thresholds_and_flips_grow_with_the_visible_dims(dims: int, grown: float) -> None:
    """Flips: a share of a prompt's labels, of 0.2 on average where 0.4 is the most."""
    task = make_task("halfspaces", 5, settings={"threshold": 0.5, "flips": 0.4})
    prompts, parameters = sample_with_parameters(task, 1500, 40, dims)
    assert parameters[2].std().item() == pytest.approx(0.5 * grown, rel=0.06, abs=1e-9)
    flipped = (prompts.ys != task.outputs(prompts.xs, parameters)).double().mean(1)
    assert flipped.mean().item() == pytest.approx(0.2 * grown, rel=0.06, abs=1e-9)
    if grown:  # uniform over prompts, beside what chance adds within them
        most = 0.4 * grown
        expected = most**2 / 12 + (most / 2 - most**2 / 3) / 40
        assert flipped.var().item() == pytest.approx(expected, rel=0.15)
