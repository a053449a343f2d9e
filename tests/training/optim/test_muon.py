"""Muon's step: what it orthogonalises, how far it goes, and what it remembers; MuonH: its
direction, its length, and the sphere that each matrix stays on."""

import math

import pytest
import torch
from torch import Tensor, nn

from looplab.training.optim.muon import Muon

_GOOD = torch.tensor(False)
_QKV = (32, 16, 16)  # the rows of queries, keys and values, of 24 columns


def _muon(
    rows: tuple[int, ...], columns: int, rate: float, decay: float = 0.0, keeps_norm: bool = False
) -> tuple[nn.Parameter, Muon]:
    weight = nn.Parameter(_normal(0, sum(rows), columns))
    group = {"params": [weight], "parts": [rows], "weight_decay": decay, "lr": torch.tensor(rate)}
    return weight, Muon([group], keeps_norm)


def _normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _orthogonalised(matrix: Tensor) -> Tensor:
    """Five Newton-Schulz steps in float64, on a matrix of Frobenius norm 1."""
    x = matrix.double()
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x - 4.7750 * a @ x + 2.0315 * a @ a @ x
    return x


def _apart(ours: Tensor, wanted: Tensor) -> float:
    """The relative distance in the Frobenius norm."""
    return float((ours.double() - wanted).norm() / wanted.norm())


def _step(weight: nn.Parameter, muon: Muon, gradient: Tensor, at: int = 0) -> Tensor:
    """How far step `at` moves the weight."""
    before = weight.detach().clone()
    weight.grad = gradient.clone()
    muon.set_momentum(at)
    muon.step(_GOOD)
    return weight.detach() - before


@pytest.mark.parametrize("shape", [(64, 16), (16, 64), (32, 32)])
def test_it_is_nesterov_s_momentum_that_is_orthogonalised(shape: tuple[int, int]) -> None:
    """Over three steps, scaled where there are more rows than columns; to the weight's rounding."""
    weight, muon = _muon(shape[:1], shape[1], rate=0.25)
    buffer = torch.zeros(shape, dtype=torch.float64)
    for seed, at in ((1, 0), (2, 150), (3, 1000)):
        gradient, mu = _normal(seed, *shape), {0: 0.85, 150: 0.90, 1000: 0.95}[at]
        buffer = mu * buffer + (1 - mu) * gradient.double()
        nesterov = mu * buffer + (1 - mu) * gradient.double()
        wanted = -0.25 * math.sqrt(max(1, shape[0] / shape[1])) * _orthogonalised(nesterov)
        assert _apart(_step(weight, muon, gradient, at), wanted) < 1e-5
    assert _apart(muon.matrices[0].buffer, buffer) < 1e-6


def test_each_part_of_a_fused_matrix_is_a_matrix_of_its_own() -> None:
    """Queries, keys and values apart, each with its own scale: one whole matrix of the same rows
    is moved elsewhere."""
    fused, muon = _muon(_QKV, 24, rate=0.5)
    gradient = _normal(7, 64, 24)
    # Of very different sizes, which a whole matrix would keep.
    gradient[32:48] *= 100
    moved = _step(fused, muon, gradient).split(_QKV)
    for part, ours in zip(gradient.split(_QKV), moved, strict=True):
        scale = math.sqrt(max(1, len(part) / 24))
        assert _apart(ours, -0.5 * scale * _orthogonalised(part)) < 1e-5
    whole = _step(*_muon((64,), 24, rate=0.5), gradient)
    assert _apart(whole[:32], moved[0].double()) > 0.3


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_decays_as_it_is_told(decay: float) -> None:
    """Not at all unless so; decoupled: it does not depend on the gradient."""
    weight, muon = _muon((16,), 16, rate=0.5, decay=decay)
    before = weight.detach().clone()
    _step(weight, muon, torch.zeros(16, 16))
    torch.testing.assert_close(weight.detach(), before * (1 - 0.5 * decay), rtol=1e-6, atol=0)
    free, theirs = _muon((16,), 16, rate=0.5)
    moved, plain = _step(weight, muon, _normal(3, 16, 16)), _step(free, theirs, _normal(3, 16, 16))
    shrunk = before * (1 - 0.5 * decay) * 0.5 * decay
    torch.testing.assert_close(moved, plain - shrunk, rtol=1e-5, atol=1e-6)


_RATE = 0.1


def _direction(update: Tensor) -> Tensor:
    """The five polynomials of Polar Express on each singular value, by a decomposition."""
    u, s, vt = torch.linalg.svd(update.double(), full_matrices=False)
    s = s / (1.02 * update.double().norm() + 1e-6)
    for a, b, c in [
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
    ]:
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ vt


@pytest.mark.parametrize("rows", [_QKV, (12,)])
def test_each_part_moves_along_its_sphere(rows: tuple[int, ...]) -> None:
    weight, muon = _muon(rows, 24, _RATE, keeps_norm=True)
    with torch.no_grad():
        weight[: rows[0]] *= 3
    before = [part.clone().double() for part in weight.detach().split(rows)]
    momentum = torch.zeros_like(weight)
    for step in range(3):
        weight.grad = _normal(step + 1, sum(rows), 24)
        momentum = 0.95 * momentum + 0.05 * weight.grad
        update = 0.05 * weight.grad + 0.95 * momentum
        muon.step(_GOOD)
        for index, (part, moved) in enumerate(
            zip(update.split(rows), weight.split(rows), strict=True)
        ):
            old, direction = before[index], _direction(part)
            wanted = old - _RATE * old.norm() * direction / direction.norm()
            wanted *= old.norm() / wanted.norm()
            torch.testing.assert_close(moved.detach().double(), wanted, rtol=0, atol=2e-5)
            before[index] = wanted
