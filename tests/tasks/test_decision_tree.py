"""Decision trees against a recursion over nodes, one question at a time."""

from __future__ import annotations

import pytest
import torch

from reloop.tasks import make_task
from reloop.tasks.random_source import FreshNumbers
from tests.tasks.spy import sample_with_parameters
from tests.tasks.statistics import (
    assert_frequencies,
    assert_normal,
    assert_uncorrelated,
    assert_variance_per_prompt,
    generator,
)


def slow_tree(x: list[float], coordinates: list[int], leaves: list[float], node: int = 0) -> float:
    """The value of the subtree at `node`: left child 2 i + 1, right child 2 i + 2."""
    if node >= len(coordinates):
        return leaves[node - len(coordinates)]
    child = 2 * node + 2 if x[coordinates[node]] > 0 else 2 * node + 1
    return slow_tree(x, coordinates, leaves, child)


@pytest.mark.parametrize(("depth", "dims"), [(1, 1), (2, 3), (4, 20), (4, 5), (6, 2)])
def test_outputs_are_those_of_a_slow_walk(depth: int, dims: int) -> None:
    task = make_task("decision_tree", dims=20, settings={"depth": depth})
    prompts, (coordinates, leaves) = sample_with_parameters(task, 12, points=15, dims=dims)
    for b in range(12):
        tree = coordinates[b].tolist(), leaves[b].tolist()
        for i in range(15):
            assert prompts.ys[b, i].item() == slow_tree(prompts.xs[b, i].tolist(), *tree)


def test_parameters_alone_give_the_same_function() -> None:
    """A tree drawn on its own, asked at inputs of the caller's."""
    task = make_task("decision_tree", dims=7, settings={"depth": 3})
    coordinates, leaves = task.parameters(FreshNumbers(generator(), 5), 7)
    xs = torch.randn(5, 9, 7, generator=generator(1))
    ys = task.outputs(xs, (coordinates, leaves))
    for b in range(5):
        tree = coordinates[b].tolist(), leaves[b].tolist()
        assert ys[b].tolist() == [slow_tree(x.tolist(), *tree) for x in xs[b]]


def test_a_coordinate_of_zero_goes_left() -> None:
    task = make_task("decision_tree", dims=2, settings={"depth": 1})
    xs = torch.tensor([[[0.0, 1.0], [1e-30, -1.0], [-1e-30, 1.0]]])
    parameters = (torch.tensor([[0]]), torch.tensor([[-5.0, 5.0]]))
    assert task.outputs(xs, parameters).tolist() == [[-5.0, 5.0, -5.0]]


def test_leaves_are_standard_normal() -> None:
    task = make_task("decision_tree", dims=20)
    _, (_, leaves) = sample_with_parameters(task, batch=3000, points=1)
    assert leaves.shape == (3000, 16)
    assert_normal(leaves)
    assert_uncorrelated(leaves[:, ::2], leaves[:, 1::2])
    assert_uncorrelated(leaves[::2], leaves[1::2])


@pytest.mark.parametrize("dims", [3, 20])
def test_coordinates_are_uniform_over_visible_dims(dims: int) -> None:
    task = make_task("decision_tree", dims=20)
    _, (coordinates, _) = sample_with_parameters(task, batch=6000, points=1, dims=dims)
    assert coordinates.shape == (6000, 15)
    assert 0 <= coordinates.min() <= coordinates.max() < dims
    # At every node on its own: hits [B, nodes, dims].
    assert_frequencies(coordinates[:, :, None] == torch.arange(dims), 1 / dims)
    assert_uncorrelated(coordinates[:, :-1], coordinates[:, 1:])


def test_the_largest_uniform_number_still_asks_for_a_visible_dimension() -> None:
    """(u · dims) must not round up to dims, whatever dims is."""

    class Largest(FreshNumbers):
        def uniform(self, *shape: int) -> torch.Tensor:
            return torch.full((self.batch, *shape), 1 - 2.0**-24)

    for dims in range(1, 300):
        task = make_task("decision_tree", dims=dims, settings={"depth": 1})
        coordinates, _ = task.parameters(Largest(generator(), 1), dims)
        assert coordinates.item() == dims - 1


def test_variance_of_y_is_one() -> None:
    task = make_task("decision_tree", dims=20)
    assert task.divisor == 1
    assert_variance_per_prompt(task.sample(generator(), batch=4000, points=10).ys, 1)


def test_both_halves_of_the_tree_are_reached_equally_often() -> None:
    task = make_task("decision_tree", dims=20, settings={"depth": 1})
    prompts, (_, leaves) = sample_with_parameters(task, batch=10_000, points=1)
    assert_frequencies(prompts.ys == leaves[:, 1:], 1 / 2)
