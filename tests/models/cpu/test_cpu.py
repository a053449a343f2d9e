"""Products by oneDNN are PyTorch's, with derivatives of every kind, wherever they are taken."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from looplab.models import cpu
from tests.conftest import printed

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="PyTorch has no oneDNN here"
)
WIDE, NARROW = (128, 256), (32, 128)
OPERATIONS = cpu.CpuOperations()
linear, linear_gelu = OPERATIONS.linear, OPERATIONS.linear_gelu


def drawn(sizes: tuple[int, int], dtype: torch.dtype = torch.float32) -> tuple[Tensor, nn.Linear]:
    """An input [3, 5, in] and a layer."""
    torch.manual_seed(0)
    layer = nn.Linear(*sizes).to(dtype)
    return torch.randn(3, 5, sizes[0], dtype=dtype, requires_grad=True), layer


def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What oneDNN was asked to do after a product, call by call."""
    cpu.has_bf16_products()  # which tries a product, once
    calls: list[str] = []
    product = cpu._product

    def note(x: Tensor, weight: Tensor, bias: Tensor | None, then: str = "none") -> Tensor:
        calls.append(then)
        return product(x, weight, bias, then)

    monkeypatch.setattr(cpu, "_product", note)
    return calls


@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_in_float64(
    bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within four roundings of float32, as sums of 128 numbers are that are not summed one by
    one."""
    calls = used(monkeypatch)
    x, layer = drawn(WIDE)
    layer = layer if bias else nn.Linear(*WIDE, bias=False)
    weights = torch.randn(3, 5, 256)
    results = []
    for double in (False, True):
        given, module = (x.double(), layer.double()) if double else (x, layer)
        out = linear(given, module)
        leaves = (given, *module.parameters())
        results.append([out, *torch.autograd.grad((out * weights.to(out)).sum(), leaves)])
    assert calls == ["none", "none"]  # forward and backward in float32, nothing in float64
    for ours, exact in zip(*results, strict=True):
        assert ours.dtype is torch.float32
        error = (ours.double() - exact).norm() / exact.norm()
        assert error < 4 * torch.finfo(torch.float32).eps


def test_second_derivatives_are_pytorchs() -> None:
    x, layer = drawn(WIDE)
    found = []
    for call in (linear, lambda x, layer: layer(x)):
        (dx,) = torch.autograd.grad(call(x, layer).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(dx.square().sum(), (x, layer.weight)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_forward_derivatives_are_pytorchs() -> None:
    x, layer = drawn(WIDE)
    given, along = x.detach(), torch.randn_like(x)
    ours, theirs = (
        torch.func.jvp(call, (given,), (along,))
        for call in (lambda x: linear(x, layer), lambda x: F.linear(x, layer.weight, layer.bias))
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_gelu_comes_with_the_product_where_no_gradient_is_wanted(
    dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = used(monkeypatch)
    x, layer = drawn(NARROW)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
        with torch.no_grad():
            ours = linear_gelu(x, layer)
            assert calls == (["gelu"] if dtype is None or cpu.has_bf16_products() else [])
        theirs = linear_gelu(x, layer)
        assert "gelu" not in calls[1:]
    assert ours.dtype is theirs.dtype is (dtype or torch.float32)
    exact = F.gelu(layer.double()(x.double()), approximate="tanh")
    allowed = 2 * (theirs.double() - exact).norm()
    assert (ours.double() - exact).norm() <= allowed


def test_without_oneDNNs_operator_products_are_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N802
    calls = used(monkeypatch)
    monkeypatch.setattr(cpu, "has_onednn", lambda: False)
    x, layer = drawn(WIDE)
    assert torch.equal(linear(x, layer), layer(x))
    with torch.no_grad():
        assert torch.equal(linear_gelu(x, layer), F.gelu(layer(x), approximate="tanh"))
    assert not calls


def test_bf16_without_oneDNNs_products_is_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N802
    calls = used(monkeypatch)
    monkeypatch.setattr(cpu, "has_bf16_products", lambda: False)
    x, layer = drawn(WIDE)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert torch.equal(linear(x, layer), layer(x))
        assert linear_gelu(x, layer).dtype is torch.bfloat16
    assert not calls


def test_without_the_private_operator_products_are_pytorchs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a PyTorch that has renamed it: in both dtypes, and with GELU."""
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    for has in (cpu.has_onednn, cpu.has_bf16_products):
        monkeypatch.setattr(cpu, has.__name__, has.__wrapped__)
    for dtype in (torch.float32, torch.bfloat16):
        x, layer = drawn(WIDE, dtype)
        assert torch.equal(linear(x, layer), layer(x))
        with torch.no_grad():
            expected = F.gelu(layer(x), approximate="tanh")
            torch.testing.assert_close(linear_gelu(x, layer), expected)


def test_a_processor_with_avx2_alone_multiplies_in_bf16() -> None:
    """As emulated: oneDNN has no such products, and PyTorch's own do not ask it for them."""
    code = (
        "import torch\n"
        "from looplab.models.cpu import has_bf16_products\n"
        "assert not has_bf16_products()\n"
        "x = torch.eye(256, dtype=torch.bfloat16)\n"
        "assert torch.equal(x @ x, torch.nn.functional.linear(x, x))\n"
    )
    printed("-c", code, ONEDNN_MAX_CPU_ISA="AVX2")
