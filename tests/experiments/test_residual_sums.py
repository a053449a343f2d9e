"""Sums over loops against sums by hand, and what the published minima and first steps measure."""

import numpy as np
import pytest
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.experiments import first_steps, iso_depth_minima
from looplab.experiments.residual_sums import lemma4, looped, share_of_pairs


def test_activations_and_branches_are_those_of_the_loop() -> None:
    layers = [torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 2.0]])]
    activations, branches = looped(layers, torch.tensor([1.0, -1.0]), loops=2, scale=0.5)
    # h: (1, -1), (1, -1/2), (2, -1/2), (2, 1/2)
    assert activations.tolist() == [[1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 0.5]]
    assert branches.tolist() == [[0.0, 1.0], [2.0, 0.0], [0.0, 2.0], [4.0, 1.0]]


def test_equal_constant_vectors_meet_both_bounds_of_lemma_4() -> None:
    assert lemma4(torch.ones(3, 4)) == (1.0, 1.0)
    lower, upper = lemma4(torch.eye(4))
    assert lower == pytest.approx(2 / (4 * 0.5))
    assert upper == pytest.approx(2 / 4)


def test_pairs_carry_the_sum_of_a_looped_stack_alone() -> None:
    assert share_of_pairs(True, seed=7) > 0.5
    assert abs(share_of_pairs(False, seed=7)) < 0.2


def test_the_minima_s_law_is_the_printed_one_of_the_docs() -> None:
    found = iso_depth_minima.measure([], EvaluationConfig(), resamples=20, draws=20)
    assert found["phi"]["value"] == pytest.approx(0.467, abs=1e-3)
    assert found["worth"] == pytest.approx(593e6, rel=2e-3)
    assert found["cost"] == pytest.approx(1.0125e9, rel=1e-3)
    squares = {name: np.square(missed).mean() for name, missed in found["missed"].items()}
    assert squares["fit"] < squares["1 refitted"] < squares["1 held"]
    # The published law misses its own minima by .36 %; twenty runs then know φ to some .03.
    assert found["scatter"] == pytest.approx(0.0036, abs=1e-4)
    assert 0.015 < np.std(found["off"]) < 0.045
    assert {panel.name for panel in iso_depth_minima.panels(found)} >= {"loss-r-4", "residuals"}


def test_the_first_steps_of_few_loops_are_measured() -> None:
    found = first_steps.measure([], EvaluationConfig(), loops=2, seeds=2)
    assert np.shape(found["norm"]["by_seed"]) == (2, 11)
    (panel,) = first_steps.panels(found)
    assert panel.name == "first-steps"
    assert panel.curves[0].mean == pytest.approx(np.mean(found["norm"]["by_seed"], axis=0))
