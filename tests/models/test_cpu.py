"""What the backend `cpu` computes: values and derivatives of PyTorch's operations, with products by
oneDNN; in bfloat16 at most twice as far from float64 as PyTorch under autocast."""

from collections.abc import Callable, Iterable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from looplab.models import cpu
from looplab.models.blocks.attention import rotation
from looplab.models.cpu import CpuOperations, gelu
from looplab.models.cpu_attention import attend_causally
from looplab.models.operations import Operations
from tests.conftest import printed
from tests.models.small import as_double, draw_prompts, make_model

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="PyTorch has no oneDNN here"
)
CPU, PLAIN = CpuOperations(), Operations()
linear, linear_gelu = CPU.linear, CPU.linear_gelu
WIDE, NARROW = (128, 256), (32, 128)


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


@needs_onednn
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


@needs_onednn
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
    half = x.detach().bfloat16()  # which gets PyTorch's operations
    assert torch.equal(call(CPU, half), call(PLAIN, half))
    assert torch.autograd.gradcheck(lambda v: call(CPU, v), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda v: call(CPU, v), (x,))


@pytest.mark.parametrize("block", ["llama", "flt"])
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


Results = Iterable[Tensor]


def assert_as_near(ours: Results, theirs: Results, exact: Results) -> None:
    """`ours` is at most twice as far from `exact` as `theirs`, tensor by tensor."""
    for our, their, right in zip(ours, theirs, exact, strict=True):
        assert our.shape == right.shape
        assert (our.double() - right).norm() <= 2 * (their.double() - right).norm()


def of_heads(call: Callable[[Tensor], Tensor], qkv: Tensor, along: Tensor) -> Results:
    """Attention of qkv [B, S, 3, heads, size], and the gradient of its product with `along`."""
    qkv = qkv.detach().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=qkv.dtype is torch.bfloat16):
        mixed = call(qkv.permute(2, 0, 3, 1, 4)).transpose(1, 2)
    (gradient,) = torch.autograd.grad(mixed, qkv, along.to(mixed.dtype))
    return mixed, *gradient.unbind(2)


# Prompts that are no multiple of those computed at once, and lengths around those of a block.
@pytest.mark.parametrize(
    ("batch", "length", "heads", "size"),
    [(17, 81, 8, 32), (3, 201, 8, 32), (33, 41, 4, 16), (2, 1, 2, 8), (3, 73, 3, 5)],
)
def test_attention(batch: int, length: int, heads: int, size: int) -> None:
    torch.manual_seed(0)
    size_of_scores = 6.0 if length == 81 else 1.0
    qkv = torch.randn(batch, length, 3, heads, size)
    qkv[:, :, :2] *= size_of_scores**0.5
    qkv, along = qkv.bfloat16(), torch.randn(batch, length, heads, size).bfloat16()

    def plain(heads: Tensor) -> Tensor:
        return PLAIN.attend(heads, None)

    exact = of_heads(plain, qkv.double(), along)
    if length == 1:  # each token mixes itself alone: PyTorch is exact, and no score matters
        for our, right in zip(of_heads(attend_causally, qkv, along), exact, strict=True):
            torch.testing.assert_close(our.double(), right, rtol=0, atol=1e-4)
        return
    assert_as_near(of_heads(attend_causally, qkv, along), of_heads(plain, qkv, along), exact)
    heads_first = qkv.permute(2, 0, 3, 1, 4)
    with_gradient = attend_causally(heads_first.detach().requires_grad_())
    assert with_gradient.requires_grad
    assert torch.equal(attend_causally(heads_first), with_gradient)


def of_layer(
    call: Callable[[Tensor, nn.Linear], Tensor], x: Tensor, layer: nn.Linear, along: Tensor
) -> Results:
    """call(x, layer), and the gradients of its product with `along`."""
    x, layer = x.detach().requires_grad_(), deepcopy(layer)
    with torch.autocast("cpu", torch.bfloat16, enabled=x.dtype is torch.float32):
        out = call(x, layer)
    return out, *torch.autograd.grad(out, (x, *layer.parameters()), along.to(out.dtype))


@pytest.mark.parametrize(("sizes", "bias"), [((128, 512), True), ((512, 128), False)])
def test_products(sizes: tuple[int, int], bias: bool) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(*sizes, bias=bias), torch.randn(4, 81, sizes[0])
    along = torch.randn(4, 81, sizes[1])
    exact = of_layer(PLAIN.linear, x.double(), deepcopy(layer).double(), along)
    ours, theirs = (of_layer(call.linear, x, layer, along) for call in (CPU, PLAIN))
    assert_as_near(ours, theirs, exact)
    assert {part.dtype for part in list(ours)[1:]} == {torch.float32}


def test_gelu_of_every_number() -> None:
    """Of all numbers of bfloat16 up to 2^40; the slope is that of float64 to a rounding."""
    z = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    z = z[z.abs() < 2.0**40].requires_grad_()
    (slope,) = torch.autograd.grad(gelu(z).sum(), z)
    exact_z = z.detach().double().requires_grad_()
    exact = nn.functional.gelu(exact_z, approximate="tanh")
    (exact_slope,) = torch.autograd.grad(exact.sum(), exact_z)
    rounding = 2.0**-8
    torch.testing.assert_close(gelu(z).double(), exact.detach(), rtol=rounding, atol=1e-6)
    torch.testing.assert_close(slope.double(), exact_slope, rtol=rounding, atol=1e-6)
