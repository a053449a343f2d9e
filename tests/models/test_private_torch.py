"""Private names of PyTorch still do what the suite takes them for. A test that fails names one."""

import pytest
import torch
from torch import Tensor, nn

from looplab.models import private_torch


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("activation", ["none", "gelu"])
def test_torch_ops_mkldnn_linear_pointwise(activation: str) -> None:
    assert private_torch.has_onednn_product()
    x, weight, bias = torch.randn(3, 5), torch.randn(7, 5), torch.randn(7)
    expected = nn.functional.linear(x, weight, bias)
    if activation == "gelu":
        expected = nn.functional.gelu(expected, approximate="tanh")
    torch.testing.assert_close(
        private_torch.onednn_product(x, weight, bias, activation), expected, rtol=1e-5, atol=1e-5
    )


def test_torch_ops_mkldnn_is_mkldnn_bf16_supported() -> None:
    assert hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported")


@pytest.mark.parametrize("bad", [True, False])
def test_found_inf_of_the_fused_adam(bad: bool) -> None:
    weight = nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([weight], lr=0.1, fused=True)
    weight.grad = torch.ones(3)
    private_torch.skip_where(adam, torch.tensor(bad))
    adam.step()
    assert torch.equal(weight, torch.ones(3)) == bad


def test_torch_foreach() -> None:
    averages = [torch.zeros(2), torch.ones(3)]
    private_torch.move_towards(averages, [torch.ones(2), torch.zeros(3)], torch.tensor(0.25))
    assert [float(average[0]) for average in averages] == [0.25, 0.75]


def test_torch_dynamo_config_recompile_limit() -> None:
    from torch._dynamo import config

    seen: list[int] = []

    def function(x: Tensor) -> Tensor:
        seen.append(config.recompile_limit)
        return x

    private_torch.limit_versions(function, 77)(torch.ones(1))
    assert seen == [77]
