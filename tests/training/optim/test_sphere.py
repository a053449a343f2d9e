"""MuonH: the direction of a step, its length, and the sphere that each matrix stays on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from reloop.training.optim.muon import SphereMuon

_GOOD, _BAD = torch.tensor(False), torch.tensor(True)
_QKV = (32, 16, 16)  # the rows of queries, keys and values, of 24 columns
_RATE = 0.1


def _normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _muon(rows: tuple[int, ...], columns: int) -> tuple[nn.Parameter, SphereMuon]:
    weight = nn.Parameter(_normal(0, sum(rows), columns))
    group = {"params": [weight], "parts": [rows], "weight_decay": 0.0, "lr": torch.tensor(_RATE)}
    return weight, SphereMuon([group])


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


@pytest.mark.parametrize("rows", [_QKV, (64,), (12,)])
def test_each_part_moves_along_its_sphere(rows: tuple[int, ...]) -> None:
    weight, muon = _muon(rows, 24)
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


def test_the_directions_are_nearly_orthogonal() -> None:
    singular = torch.linalg.svdvals(_direction(_normal(3, 64, 24)))
    assert 0.8 < singular.min() <= singular.max() < 1.2


def test_norms_do_not_drift() -> None:
    weight, muon = _muon(_QKV, 24)
    norms = [float(part.norm()) for part in weight.detach().split(_QKV)]
    for step in range(300):
        weight.grad = _normal(step, 64, 24)
        muon.step(_GOOD)
    for part, norm in zip(weight.detach().split(_QKV), norms, strict=True):
        assert float(part.norm()) == pytest.approx(norm, rel=1e-5)


def test_a_bad_step_changes_nothing() -> None:
    weight, muon = _muon(_QKV, 24)
    weight.grad = _normal(1, 64, 24)
    muon.step(_GOOD)
    kept = [tensor.detach().clone() for tensor in (weight, muon.matrices[0].buffer)]
    weight.grad = torch.full_like(weight, torch.nan)
    muon.step(_BAD)
    for now, before in zip((weight, muon.matrices[0].buffer), kept, strict=True):
        assert torch.equal(now, before)
