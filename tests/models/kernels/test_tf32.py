"""TF32 products: their operands are rounded to nearest, where tensor cores would cut them off."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from looplab.models.kernels.common import INTERPRETED, Compute
from looplab.models.kernels.gather import Uses
from looplab.models.kernels.mlp import MlpOperation
from looplab.models.kernels.projection import ProjectionOperation
from looplab.models.kernels.qkv import QkvOperation
from tests.models.kernels.yardstick import Draws, relative_error

TF32 = Compute(torch.float32, tf32=True)
SIZE = (3, 23, 64)  # prompts, tokens, width

pytestmark = pytest.mark.skipif(
    not INTERPRETED.value, reason="against exact products of rounded operands"
)


def nearest(x: Tensor) -> Tensor:
    """x [...] in float64, rounded to 11 significant bits."""
    mantissa, exponent = torch.frexp(x.detach().double())
    scaled = mantissa * 2**11
    away = torch.sign(scaled) * (scaled.abs() + 0.5).floor()  # torch.round takes ties to even
    return torch.ldexp(away, exponent - 11)


def cut(x: Tensor) -> Tensor:
    """The same, cut off."""
    mantissa, exponent = torch.frexp(x.detach().double())
    return torch.ldexp((mantissa * 2**11).trunc(), exponent - 11)


def test_weights_are_rounded_to_nearest() -> None:
    weight = Draws(torch.device("cpu")).normal(64, 64)
    assert torch.equal(TF32.cast(weight).double(), nearest(weight))
    assert not torch.equal(nearest(weight), cut(weight))


def test_a_weight_that_is_no_number_stays_so() -> None:
    weight = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    weight.view(torch.int32)[0] = 0x7FFFFFFF  # to which a carry would give another sign
    cast = TF32.cast(weight)
    assert cast[0].isnan()
    assert torch.equal(cast[1:], weight[1:])


@pytest.mark.parametrize("operation", ["projection", "qkv", "mlp"])
def test_a_forward_pass_is_the_product_of_rounded_operands(operation: str) -> None:
    draws = Draws(torch.device("cpu"))
    block = draws.block(SIZE[-1], 4)
    x, mixed = (draws.normal(*SIZE).detach() for _ in range(2))
    double = {name: p.detach().double() for name, p in block.named_parameters()}
    norm = "norm_1" if operation == "qkv" else "norm_2"
    normed = F.layer_norm(x.double(), SIZE[-1:], double[f"{norm}.weight"], double[f"{norm}.bias"])

    def exact(round_: Callable[[Tensor], Tensor]) -> Tensor:
        def product(a: Tensor, name: str) -> Tensor:
            weight = round_(block.get_parameter(f"{name}.weight"))
            return round_(a) @ weight.T + double[f"{name}.bias"]

        if operation == "qkv":
            return product(normed, "qkv")
        if operation == "projection":
            return x.double() + product(mixed, "projection")
        hidden = F.gelu(product(normed, "expand"), approximate="tanh")
        return x.double() + product(hidden, "contract")

    with torch.no_grad():
        if operation == "qkv":
            ours = QkvOperation(block, TF32, Uses(1, 1)).forward(x, False, False)[1]
        elif operation == "projection":
            ours = ProjectionOperation(block, TF32, Uses(1, 1), 1.0).forward(x, mixed)
        else:
            ours = MlpOperation(block, TF32, Uses(1, 1), 1.0).forward(x)
    # Where rounding decides between two neighbours, float32's own rounding can tip it.
    assert relative_error(ours, exact(nearest)) < 3e-5
    assert relative_error(ours, exact(cut)) > 2e-4
