"""Decision trees against a recursion over nodes, ReLU networks against NumPy, halfspaces, whose
inputs are as those of tables, and mixtures of classes."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.tasks import make_task
from looplab.tasks.mixture import Mixed, Mixture
from looplab.tasks.random_source import FreshNumbers
from tests.tasks.conftest import (
    assert_frequencies,
    assert_independent_normals,
    assert_mean,
    assert_uncorrelated,
    generator,
    sample_with_parameters,
)


def slow_tree(x: list[float], coordinates: list[int], leaves: list[float], node: int = 0) -> float:
    """The value of the subtree at `node`: left child 2 i + 1, right child 2 i + 2."""
    if node >= len(coordinates):
        return leaves[node - len(coordinates)]
    child = 2 * node + 2 if x[coordinates[node]] > 0 else 2 * node + 1
    return slow_tree(x, coordinates, leaves, child)


@pytest.mark.parametrize(("depth", "dims"), [(1, 1), (4, 20), (6, 2)])
def test_outputs_are_those_of_a_slow_walk(depth: int, dims: int) -> None:
    """At a coordinate of zero, too."""
    task = make_task("decision_tree", dims=20, settings={"depth": depth})
    prompts, parameters = sample_with_parameters(task, 12, points=15, dims=dims)
    prompts.xs[:, 0] = 0
    ys = task.outputs(prompts.xs, parameters)
    for b in range(12):
        coordinates, leaves = (part[b].tolist() for part in parameters)
        walked = [slow_tree(x, coordinates, leaves) for x in prompts.xs[b].tolist()]
        assert ys[b].tolist() == walked
        assert prompts.ys[b, 1:].tolist() == walked[1:]


def test_coordinates_are_uniform_over_visible_dims_and_leaves_normal() -> None:
    task, dims = make_task("decision_tree", dims=20), 3
    _, (coordinates, leaves) = sample_with_parameters(task, batch=6000, points=1, dims=dims)
    assert (coordinates.shape, leaves.shape) == ((6000, 15), (6000, 16))
    # At every node on its own: hits [B, nodes, dims].
    assert_frequencies(coordinates[:, :, None] == torch.arange(dims), 1 / dims)
    assert_uncorrelated(coordinates[:, :-1], coordinates[:, 1:])
    assert_independent_normals(leaves)


def test_the_largest_uniform_number_still_asks_for_a_visible_dimension() -> None:
    """(u · dims) must not round up to dims, whatever dims is."""

    class Largest(FreshNumbers):
        def uniform(self, *shape: int) -> torch.Tensor:
            return torch.full((self.batch, *shape), 1 - 2.0**-24)

    for dims in range(1, 300):
        task = make_task("decision_tree", dims=dims, settings={"depth": 1})
        coordinates, _ = task.parameters(Largest(generator(), 1), dims)
        assert coordinates.item() == dims - 1


def slow_network(xs: Tensor, first: Tensor, second: Tensor) -> np.ndarray:
    """sqrt(2 / hidden) · relu(x W₁) w₂ in float64, unit by unit."""
    x, w1, w2 = (tensor.double().numpy() for tensor in (xs, first, second))
    hidden = w2.shape[1]
    ys = np.zeros(x.shape[:2])
    for unit in range(hidden):
        activation = np.sum(x * w1[:, None, :, unit], axis=2)
        ys += np.where(activation > 0, activation, 0.0) * w2[:, None, unit]
    return ys * np.sqrt(2.0 / hidden)


@pytest.mark.parametrize(("hidden", "dims"), [(100, 20), (7, 4)])
def test_outputs_are_those_of_the_formula(hidden: int, dims: int) -> None:
    task = make_task("relu_network", dims=20, settings={"hidden": hidden})
    prompts, (first, second) = sample_with_parameters(task, batch=6, points=9, dims=dims)
    kept, expected = prompts.xs.clone(), slow_network(prompts.xs, first, second)
    assert torch.equal(task.outputs(prompts.xs, (first, second)), prompts.ys)
    assert torch.equal(prompts.xs, kept)  # the network works in place on its own numbers only
    np.testing.assert_allclose(prompts.ys.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_weights_are_standard_normal() -> None:
    """So that the variance of y is that of its formula, the divisor."""
    task = make_task("relu_network", dims=20)
    assert task.divisor == 20
    _, (first, second) = sample_with_parameters(task, batch=300, points=1)
    assert first.shape == (300, 20, 100)
    assert second.shape == (300, 100)
    assert_independent_normals(first)
    assert_independent_normals(second)
    assert_uncorrelated(first[:, 0], second)


def test_each_number_of_features_is_as_likely() -> None:
    """In any of the visible places alike, the same in all rows of a prompt."""
    task, dims = make_task("halfspaces", 6, settings={"vary_features": True}), 4
    there = task.sample(generator(), batch=2000, points=3, dims=dims).xs != 0
    assert torch.equal(there, there[:, :1].expand_as(there))
    assert not there[:, :, : 6 - dims].any()
    places = there[:, 0, 6 - dims :]
    counts = places.sum(1)
    assert_frequencies(counts[:, None] == torch.arange(1, dims + 1), 1 / dims)
    for count in range(1, dims):
        assert_frequencies(places[counts == count], count / dims)


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


ALL = ("linear", "sparse_linear", "decision_tree", "relu_network")


def task(*mixed: str, dims: int = 4, **settings: object) -> Mixture:
    values = {"mixed": mixed or ALL, "hidden": 5, "depth": 2, "sparsity": 2} | settings
    return cast(Mixture, make_task("mixture", dims, settings=values))


def test_every_class_has_its_share_and_outputs_of_variance_one() -> None:
    prompts, parameters = task().draw(generator(), batch=40_000, points=5)
    place = cast(Mixed, parameters).place
    for index in range(len(ALL)):
        of_class = place == index
        assert_mean(of_class.float(), 0.25)
        assert_mean(prompts.ys[of_class].square().mean(1), 1.0)


def test_the_prompts_of_one_class_are_those_of_its_task_over_their_standard_deviation() -> None:
    for name in ALL:
        mixture = task(name)
        (part,) = mixture.parts
        prompts, parameters = mixture.draw(generator(), batch=50, points=9)
        (own,) = cast(Mixed, parameters).parameters
        expected = part.outputs(prompts.xs, own) / np.sqrt(part.divisor)
        torch.testing.assert_close(prompts.ys, expected)
    least = task("linear").sample(generator(), batch=20, points=9)
    ys = torch.linalg.lstsq(least.xs[:, :4], least.ys[:, :4, None]).solution
    torch.testing.assert_close((least.xs @ ys).squeeze(2), least.ys, rtol=1e-2, atol=1e-2)


def test_combined_functions_have_a_part_of_every_class_and_the_same_variance() -> None:
    combined = replace(task("linear", "decision_tree"), combined=True)
    prompts, parameters = combined.draw(generator(), batch=40_000, points=3)
    assert_mean(prompts.ys.square().mean(1), 1.0)
    linear, tree = combined.parts
    of_linear, of_tree = cast(Mixed, parameters).parameters
    expected = linear.outputs(prompts.xs, of_linear) / 2 + tree.outputs(prompts.xs, of_tree)
    torch.testing.assert_close(prompts.ys, expected / np.sqrt(2))


def test_finitely_many_functions_are_of_all_classes() -> None:
    finite = replace(task(), distinct_functions=12)
    places = cast(Mixed, finite.functions()).place
    assert len(places) == 12
    assert places.unique().tolist() == [0, 1, 2, 3]
    assert finite.for_evaluation() == task()


@pytest.mark.parametrize("mixed", [("linear", "noisy_linear"), ("linear", "linear"), ()])
def test_classes_that_cannot_be_mixed(mixed: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"^mixed "):
        make_task("mixture", 4, settings={"mixed": mixed})
