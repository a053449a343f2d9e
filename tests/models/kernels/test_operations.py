"""Each operation: its results and gradients beside its reference, at shapes large and odd; the
references, one after another, are the step of the loop; and operands of TF32 products are rounded
to nearest, where tensor cores would cut them off."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from looplab.models.blocks.gpt2 import Block
from looplab.models.blocks.spec import BlockSpec
from looplab.models.kernels import attention, mlp, norm, projection, qkv
from looplab.models.kernels.attention import Attention
from looplab.models.kernels.common import INTERPRETED, Compute
from looplab.models.kernels.gather import Operation, Uses
from looplab.models.kernels.mlp import MlpOperation
from looplab.models.kernels.norm import NormOperation
from looplab.models.kernels.projection import ProjectionOperation
from looplab.models.kernels.qkv import QkvOperation
from looplab.models.kernels.variants import VARIANTS, Variants
from looplab.models.loops.loop import SharedLoop, StepContext
from tests.models.kernels.yardstick import Draws, assert_near, relative_error

DRAWS = Draws(torch.device("cpu"))
BLOCK, NORM = DRAWS.block(4, 2).double(), DRAWS.norm(4).double()
X, E, POSITIONS = (
    DRAWS.normal(*size, dtype=torch.float64) for size in ((2, 3, 4),) * 2 + ((3, 4),)
)


@pytest.mark.parametrize("injection", ["add", "multiply", "none"])
def test_one_after_another_they_are_a_step_of_the_loop(injection: str) -> None:
    loop = SharedLoop(BlockSpec(4, 2, length=3), injection).double()
    loop.blocks[0], loop.norm = BLOCK, NORM
    loop.positions = torch.nn.Parameter(POSITIONS)
    state = loop.start(X)._replace(stream=X)
    expected = loop.step(state, E, 0, StepContext(0.7))
    e, positions = (E if injection != "none" else None), (POSITIONS if injection != "add" else None)
    _, x, heads = qkv.reference(X, e, positions, None, BLOCK.norm_1, BLOCK.qkv)
    x = projection.reference(x, attention.reference(heads, 2), BLOCK.projection, 0.7)
    x = mlp.reference(x, BLOCK, 0.7)
    torch.testing.assert_close(x, expected.raw, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(norm.reference(x, NORM), expected.stream, rtol=1e-12, atol=1e-12)


class Shape(NamedTuple):
    """Prompts of `length` tokens, `uses` times; the paper's width and heads unless told."""

    prompts: int
    length: int
    width: int = 256
    heads: int = 8
    uses: int = 2


# A prompt of n points has 2 n - 1 tokens, or 2 n where it is unrolled.
PAPER = [Shape(64, 81), Shape(64, 201)]  # 41 and 101 points
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="too large to interpret")


def shapes(*small: Shape, slow: Sequence[Shape] = ()) -> list[Any]:
    """The small ones everywhere, of which some are slow, the paper's on a GPU."""
    described = [(shape, ()) for shape in small] + [(shape, on_a_gpu) for shape in PAPER]
    described += [(shape, pytest.mark.slow) for shape in slow]
    return [pytest.param(shape, marks=m, id="x".join(map(str, shape))) for shape, m in described]


FORWARD = {"qkv": "qkv_forward", "projection": "projection_forward", "mlp": "mlp_forward"}
BACKWARD = {"projection": "projection_backward", "mlp": "mlp_backward"}


def of(operation: str, variant: str) -> Variants:
    """An operation's passes by one variant."""
    names = [passes[operation] for passes in (FORWARD, BACKWARD) if operation in passes]
    return Variants(**dict.fromkeys(names, variant))


def with_variants(operation: str, fused: list[Any], *others: Shape) -> list[Any]:
    """The operation's variants with shapes: fused with all of these, the others with few."""
    cases = []
    for variant in VARIANTS[FORWARD[operation]]:
        for case in fused if variant == "fused" else shapes(*others):
            values, name = (of(operation, variant), *case.values), f"{variant}-{case.id}"
            cases.append(pytest.param(*values, marks=case.marks, id=name))
    return cases


ONE_TOKEN = Shape(1, 1, 32, 2, 1)
UNEVEN = Shape(3, 23, 32, 4, 2)  # 69 rows are no multiple of 8, 16, 32 or 64, nor are 23
NO_POWER_OF_TWO = Shape(2, 5, 96, 4, 1)
EVEN_LENGTH = Shape(2, 6, 64, 2, 3)
TWO_TILES_WIDE = Shape(2, 3, 160, 5, 1)


@pytest.mark.parametrize("shape", shapes(ONE_TOKEN, UNEVEN, NO_POWER_OF_TWO))
def test_norm_and_its_gradients_are_near(shape: Shape, device: torch.device) -> None:
    compute, draws = Compute(torch.float32), Draws(device)
    layer, x = draws.norm(shape.width), draws.normal(shape.prompts, shape.length, shape.width)
    operation = NormOperation(layer, compute)
    with torch.no_grad():
        out = operation.forward(x)
        (dout,) = draws.like(out)
        dx = operation.backward(x, dout)
        dweight, dbias = operation.gradients()
    assert dweight is not None
    assert dbias is not None
    ours = {"out": out, "dx": dx, "dweight": dweight, "dbias": dbias}
    assert_near(ours, lambda *a: (norm.reference(*a),), (x, layer), [dout], compute)


GRADIENTS = ("norm_w", "norm_b", "expand", "expand_b", "contract", "contract_b")


@pytest.mark.parametrize(
    ("variants", "shape"),
    with_variants("mlp", shapes(ONE_TOKEN, UNEVEN, NO_POWER_OF_TWO), UNEVEN, NO_POWER_OF_TWO),
)
def test_mlp_and_its_gradients_are_near(
    variants: Variants, shape: Shape, compute: Compute, device: torch.device
) -> None:
    """All uses forward, all backward, then the weights' gradients."""
    compute = replace(compute, variants=variants)
    draws, size = Draws(device), (shape.prompts, shape.length, shape.width)
    block = draws.block(shape.width, shape.heads)
    xs = [draws.normal(*size) for _ in range(shape.uses)]
    operation = MlpOperation(block, compute, Uses(shape.uses, 2), 0.7)
    with torch.no_grad():
        outs = [operation.forward(x) for x in xs]
        douts = draws.like(*outs)
        dxs = {u: operation.backward(u, xs[u], douts[u]) for u in reversed(range(shape.uses))}
        gradients = operation.gradients()
    ours: dict[str, Tensor | None] = {f"out {u}": out for u, out in enumerate(outs)}
    ours |= {f"dx {u}": dxs[u] for u in range(shape.uses)}
    ours |= dict(zip(GRADIENTS, gradients, strict=True))

    def eager(*arguments: Any) -> list[Tensor]:
        return [mlp.reference(x, arguments[-1], 0.7) for x in arguments[:-1]]

    assert_near(ours, eager, (*xs, block), douts, compute)


@pytest.mark.parametrize(
    ("variants", "shape"),
    with_variants(
        "projection",
        shapes(ONE_TOKEN, UNEVEN, NO_POWER_OF_TWO, TWO_TILES_WIDE),
        UNEVEN,
        NO_POWER_OF_TWO,
    ),
)
@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_projection_and_its_gradients_are_near(
    variants: Variants, shape: Shape, scale: float, compute: Compute, device: torch.device
) -> None:
    compute = replace(compute, variants=variants)
    draws, size = Draws(device), (shape.prompts, shape.length, shape.width)
    block, uses = draws.block(shape.width, shape.heads), range(shape.uses)
    operation = ProjectionOperation(block, compute, Uses(shape.uses, 2), scale)
    xs = [draws.normal(*size) for _ in uses]
    mixed = [draws.normal(*size, dtype=compute.dtype) for _ in uses]
    with torch.no_grad():
        for use in uses:  # where attention leaves it
            operation.slot_for_mixed(use, xs[use]).copy_(mixed[use])
        outs = [operation.forward(xs[use], mixed[use]) for use in uses]
        douts = draws.like(*outs)
        dmixed = {use: operation.backward(use, douts[use]) for use in reversed(uses)}
        gradients = operation.gradients()
    ours: dict[str, Tensor | None] = {f"out {use}": outs[use] for use in uses}
    for use in uses:
        ours |= {f"dx {use}": douts[use], f"dmixed {use}": dmixed[use]}  # dx: passed on as it is
    ours |= dict(zip(("dweight", "dbias"), gradients, strict=True))

    def eager(*arguments: Any) -> list[Tensor]:
        layer = arguments[-1]
        pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
        return [projection.reference(x, heads, layer, scale) for x, heads in pairs]

    pairs = [tensor for pair in zip(xs, mixed, strict=True) for tensor in pair]
    assert_near(ours, eager, (*pairs, block.projection), douts, compute)


# Heads of 8, 16, 24, 32 and 64 dimensions.
UNEVEN_HEADS = Shape(2, 23, 32, 2, 1)
HEAD_SIZES = [
    ONE_TOKEN,
    Shape(1, 6, 32, 4, 1),
    UNEVEN_HEADS,
    Shape(1, 17, 96, 4, 1),
    Shape(1, 69, 32, 1, 1),  # two tiles, even where one has 64 rows
    Shape(2, 5, 64, 1, 1),
]


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        *((shape, 1.0) for shape in HEAD_SIZES),
        (UNEVEN_HEADS, 8.0),
        *(pytest.param(shape, 1.0, marks=on_a_gpu) for shape in PAPER),
    ],
)
def test_attention_and_its_gradients_are_near(
    shape: Shape, size: float, compute: Compute, device: torch.device
) -> None:
    """Where queries, keys and values have size 8, few keys take all weight: scores are some 2^6,
    whose exponentials no float32 holds."""
    draws = Draws(device)
    drawn = draws.normal(shape.prompts, shape.length, 3 * shape.width)
    projected = (drawn * size).to(compute.dtype).detach().requires_grad_()
    operation = QkvOperation(Block(shape.width, shape.heads).to(device), compute, Uses(1, 1))
    function: Any = Attention
    mixed = projected.new_empty(shape.prompts, shape.length, shape.width)
    out = function.apply(projected, shape.heads, operation, 0, mixed)
    (dout,) = draws.like(out)
    (dqkv,) = torch.autograd.grad(out, projected, dout)
    rows = dqkv.flatten(0, 1)
    assert torch.equal(rows, operation.slot("dqkv", 0, rows.shape, rows))
    tiles = shape.prompts * -(-shape.length // attention.tiles(compute).rows)
    bias = torch.zeros(3 * shape.width, device=device, requires_grad=True)
    dbias = operation.slot("bias", 0, (tiles, 3 * shape.width), bias).sum(0)
    ours = {"out": out, "dqkv": dqkv, "dbias": dbias}
    assert_near(
        ours,
        lambda x, bias: (attention.reference(x + bias, shape.heads),),
        (projected, bias),
        [dout],
        compute,
    )


class Use(NamedTuple):
    """Whether the source is normed first, and whether it is handed out after that."""

    normed: bool
    keep: bool


PLAIN, NORMED, KEPT = Use(False, False), Use(True, False), Use(True, True)


def check_qkv(
    shape: Shape, injection: str, uses: list[Use], compute: Compute, device: torch.device
) -> None:
    """All uses forward, all backward, then what they share."""
    draws, size = Draws(device), (shape.prompts, shape.length, shape.width)
    block = draws.block(shape.width, shape.heads)
    final_norm = draws.norm(shape.width) if any(use.normed for use in uses) else None
    e = draws.normal(*size) if injection in ("add", "multiply") else None
    positions = draws.normal(*size[1:]) if injection in ("multiply", "none") else None
    sources = [draws.normal(*size) for _ in uses]
    operation = QkvOperation(
        block,
        compute,
        Uses(len(uses), 2),
        injection=injection,
        e=e,
        positions=positions,
        norm_f=final_norm,
    )
    with torch.no_grad():
        outs = [operation.forward(s, *use) for s, use in zip(sources, uses, strict=True)]
        cotangents = [draws.like(*out) for out in outs]
        dsources = {}
        for u in reversed(range(len(uses))):
            dx, dqkv, *dkept = cotangents[u]
            rows = dqkv.flatten(0, 1)
            # Where attention leaves them.
            operation.slot("dqkv", u, rows.shape, rows).copy_(rows)
            sums = rows.sum(0, keepdim=True, dtype=torch.float32)
            operation.slot("bias", u, sums.shape, sums).copy_(sums)
            dsources[u] = operation.backward(
                u, sources[u], uses[u].normed, dx, dqkv, dkept[0] if dkept else None
            )
        gradients = operation.gradients()
    names = [
        f"{name} {u}" for u, use in enumerate(uses) for name in ("x", "qkv", "kept")[: 2 + use.keep]
    ]
    ours: dict[str, Tensor | None] = dict(
        zip(names, [tensor for out in outs for tensor in out], strict=True)
    )
    ours |= {f"dsource {u}": dsources[u] for u in range(len(uses))}
    ours |= {f"gradient {i}": gradient for i, gradient in enumerate(gradients)}

    def eager(*arguments: Any) -> list[Tensor]:
        outputs = []
        e_, positions_, norm_, *own = arguments[len(uses) :]
        for source, use in zip(arguments, uses, strict=False):
            y, *rest = qkv.reference(source, e_, positions_, norm_ if use.normed else None, *own)
            outputs += [*rest, y[:, ::2]] if use.keep else rest
        return outputs

    arguments = (*sources, e, positions, final_norm, block.norm_1, block.qkv)
    assert_near(ours, eager, arguments, [c for some in cotangents for c in some], compute)


@pytest.mark.parametrize(
    ("variants", "shape"),
    with_variants(
        "qkv", shapes(UNEVEN, EVEN_LENGTH, slow=(ONE_TOKEN, NO_POWER_OF_TWO)), EVEN_LENGTH
    ),
)
@pytest.mark.parametrize("injection", ["add", "multiply", "none"])
def test_every_injection_and_its_gradients_are_near(
    variants: Variants, shape: Shape, injection: str, compute: Compute, device: torch.device
) -> None:
    """Uses as a loop makes them: first from its start, then from unnormed streams."""
    compute = replace(compute, variants=variants)
    check_qkv(shape, injection, [PLAIN, NORMED, KEPT], compute, device)


@pytest.mark.parametrize(
    ("variants", "shape"),
    with_variants("qkv", shapes(UNEVEN, NO_POWER_OF_TWO), NO_POWER_OF_TWO),
)
def test_a_layer_that_no_prompt_enters_and_its_gradients_are_near(
    variants: Variants, shape: Shape, compute: Compute, device: torch.device
) -> None:
    compute = replace(compute, variants=variants)
    check_qkv(shape, "inner", [PLAIN] * shape.uses, compute, device)


TF32 = Compute(torch.float32, tf32=True)
SIZE = (3, 23, 64)  # prompts, tokens, width

interpreted = pytest.mark.skipif(
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


@interpreted
def test_weights_are_rounded_to_nearest() -> None:
    weight = Draws(torch.device("cpu")).normal(64, 64)
    assert torch.equal(TF32.cast(weight).double(), nearest(weight))
    assert not torch.equal(nearest(weight), cut(weight))


@interpreted
def test_a_weight_that_is_no_number_stays_so() -> None:
    weight = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    weight.view(torch.int32)[0] = 0x7FFFFFFF  # to which a carry would give another sign
    cast = TF32.cast(weight)
    assert cast[0].isnan()
    assert torch.equal(cast[1:], weight[1:])


@interpreted
@pytest.mark.parametrize(
    ("operation", "variant"),
    [(name, variant) for name, field in FORWARD.items() for variant in VARIANTS[field]],
)
def test_a_forward_pass_is_the_product_of_rounded_operands(operation: str, variant: str) -> None:
    compute = replace(TF32, variants=of(operation, variant))
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
            ours = QkvOperation(block, compute, Uses(1, 1)).forward(x, False, False)[1]
        elif operation == "projection":
            ours = ProjectionOperation(block, compute, Uses(1, 1), 1.0).forward(x, mixed)
        else:
            ours = MlpOperation(block, compute, Uses(1, 1), 1.0).forward(x)
    # Where rounding decides between two neighbours, float32's own rounding can tip it.
    assert relative_error(ours, exact(nearest)) < 3e-5
    assert relative_error(ours, exact(cut)) > 2e-4


@interpreted
@pytest.mark.parametrize(
    ("operation", "variant"),
    [(name, variant) for name, field in BACKWARD.items() for variant in VARIANTS[field]],
)
def test_a_backward_pass_stores_rounded_operands(
    operation: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the products of the weights' gradients."""
    draws, compute = Draws(torch.device("cpu")), replace(TF32, variants=of(operation, variant))
    block, stored = draws.block(SIZE[-1], 4), {}
    x, dout = (draws.normal(*SIZE).detach() for _ in range(2))

    def keep(self: Operation, first: int, stacks: dict[str, Tensor]) -> tuple[Tensor, ...]:
        stored.update(stacks)
        return ()

    if operation == "mlp":
        monkeypatch.setattr(MlpOperation, "weight_gradients", keep)
        MlpOperation(block, compute, Uses(1, 1), 0.7).backward(0, x, dout)
        names = ["b", "scaled", "hidden"]
    else:
        monkeypatch.setattr(ProjectionOperation, "weight_gradients", keep)
        ProjectionOperation(block, compute, Uses(1, 1), 0.7).backward(0, dout)
        names = ["scaled"]
    for name in names:
        assert torch.equal(stored[name].double(), nearest(stored[name])), name
