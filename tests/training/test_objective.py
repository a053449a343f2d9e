"""The loss and the error against sums written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from reloop.training.objective import error, loss

WINDOW, BATCH, POINTS, CLASSES = 3, 2, 5, 2
TOKENS = [(0.0, 1.0), (-1.0, 1.0)]  # of class 0 and class 1: the reference's and ours


def _draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def _classes() -> Tensor:
    """Class numbers, each of them at least once."""
    return (torch.arange(BATCH * POINTS) % CLASSES).view(BATCH, POINTS)


def _labels(tokens: tuple[float, float]) -> Tensor:
    return torch.tensor(tokens)[_classes()]


def test_squared_error_is_the_mean_over_window_batch_and_points() -> None:
    predictions, ys = _draw(WINDOW, BATCH, POINTS), _draw(BATCH, POINTS)
    total = 0.0
    for t in range(WINDOW):
        for b in range(BATCH):
            for i in range(POINTS):
                total += (float(predictions[t, b, i]) - float(ys[b, i])) ** 2
    mean = total / (WINDOW * BATCH * POINTS)
    assert float(loss("squared_error", predictions, ys)) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("tokens", TOKENS)
def test_cross_entropy_is_the_mean_of_minus_log_probabilities(tokens: tuple[float, float]) -> None:
    scores, ys = _draw(WINDOW, BATCH, POINTS, CLASSES), _classes()
    total = 0.0
    for t in range(WINDOW):
        for b in range(BATCH):
            for i in range(POINTS):
                row = [float(score) for score in scores[t, b, i]]
                total += math.log(sum(map(math.exp, row))) - row[int(ys[b, i])]
    mean = total / (WINDOW * BATCH * POINTS)
    assert float(loss("cross_entropy", scores, _labels(tokens))) == pytest.approx(mean, rel=1e-6)


def test_cross_entropy_of_large_scores_is_finite() -> None:
    scores = torch.tensor([1e4, -1e4]).expand(WINDOW, BATCH, POINTS, CLASSES)
    assert float(loss("cross_entropy", scores, torch.zeros(BATCH, POINTS))) == 0
    assert float(loss("cross_entropy", scores, torch.ones(BATCH, POINTS))) == 2e4


@pytest.mark.parametrize("kind", ["squared_error", "cross_entropy"])
def test_the_gradient_reaches_every_loop_of_the_window(kind: str) -> None:
    shape = (WINDOW, BATCH, POINTS) + ((CLASSES,) if kind == "cross_entropy" else ())
    predictions = _draw(*shape).requires_grad_()
    loss(kind, predictions, _labels((-1.0, 1.0))).backward()
    assert predictions.grad is not None
    assert (predictions.grad.flatten(1).abs().sum(1) > 0).all()


def test_squared_errors_keep_their_shape() -> None:
    predictions, ys = _draw(WINDOW, BATCH, POINTS), _draw(BATCH, POINTS)
    errors = error("squared_error", predictions, ys)
    assert errors.shape == (WINDOW, BATCH, POINTS)
    assert torch.equal(errors[1, 0, 2], (predictions[1, 0, 2] - ys[0, 2]) ** 2)
    assert float(errors.mean()) == pytest.approx(float(loss("squared_error", predictions, ys)))


@pytest.mark.parametrize("tokens", TOKENS)
def test_a_wrong_class_is_an_error_of_one(tokens: tuple[float, float]) -> None:
    scores, ys = _draw(WINDOW, BATCH, POINTS, CLASSES), _classes()
    errors = error("cross_entropy", scores, _labels(tokens))
    assert errors.shape == (WINDOW, BATCH, POINTS)
    for t in range(WINDOW):
        for b in range(BATCH):
            for i in range(POINTS):
                row = scores[t, b, i].tolist()
                assert float(errors[t, b, i]) == float(row.index(max(row)) != int(ys[b, i]))
    assert 0 < float(errors.mean()) < 1
