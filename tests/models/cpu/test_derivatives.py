"""Norm, rotation and squared ReLU of the backend `cpu`: the values of PyTorch's operations, and
derivatives of both directions and of second order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from reloop.models.blocks.attention import rotation
from reloop.models.cpu import CpuOperations
from reloop.models.operations import Operations
from tests.models.small import as_double, draw_prompts, make_model

CPU, PLAIN = CpuOperations(), Operations()
_ANGLES = rotation(torch.arange(2), 4, torch.float64)
_GAIN = torch.tensor([0.5, -1.0, 2.0, 1.5], dtype=torch.float64)
_CALLS: dict[str, Callable[[Operations, Tensor], Tensor]] = {
    "norm": lambda operations, x: operations.rms_norm(x, None, 1e-3),
    "norm with a gain": lambda operations, x: operations.rms_norm(x, _GAIN.to(x.dtype), 1e-3),
    "rotation": lambda operations, x: operations.rotate(x, *(a.to(x.dtype) for a in _ANGLES)),
    "squared relu": lambda operations, x: operations.squared_relu(x),
}


@pytest.mark.parametrize("name", _CALLS)
def test_values_and_derivatives(name: str) -> None:
    call = _CALLS[name]
    x = torch.randn(3, 2, 3, 4, generator=torch.Generator().manual_seed(0)).double()
    x.requires_grad_()
    torch.testing.assert_close(call(CPU, x), call(PLAIN, x), rtol=1e-14, atol=1e-14)
    ours = torch.autograd.grad(call(CPU, x).pow(3).sum(), x)[0]
    theirs = torch.autograd.grad(call(PLAIN, x).pow(3).sum(), x)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda v: call(CPU, v), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda v: call(CPU, v), (x,))


@pytest.mark.parametrize("name", _CALLS)
def test_bfloat16_is_pytorch_s(name: str) -> None:
    """bfloat16 gets PyTorch's operations."""
    half = torch.randn(3, 2, 3, 4).bfloat16()
    assert torch.equal(_CALLS[name](CPU, half), _CALLS[name](PLAIN, half))


@pytest.mark.parametrize("block", ["llama", "flt", "relu2"])
def test_a_model_s_gradients_are_those_of_plain_operations(block: str) -> None:
    model = make_model(block=block, injection="concat", prelude=1, coda=1).double()
    prompts = as_double(draw_prompts())
    gradients = []
    for operations in (CPU, PLAIN):
        model.operations = operations
        model.zero_grad()
        model(prompts, 4, 2, grad_loops=3).square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
