"""The yardstick: against float64 a kernel's error is at most twice PyTorch's in its precision.

arguments = (x, block.norm_1)                                  # tensors, and modules with weights
assert_near(ours, partial(reference), arguments, cotangents, compute)
"""

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from looplab.models import Model
from looplab.models.blocks.gpt2 import Block
from looplab.models.kernels.common import Compute
from looplab.models.kernels.segment import run_segment
from tests.models.small import Batch, draw_prompts, make_model

Function = Callable[..., Sequence[Tensor]]

# PyTorch may meet the exact result by chance, or where it sums few numbers. Whatever the operands,
# a result is summed and stored in float32: a handful of its roundings is no error of a kernel's; on
# a card, which adds in more parts at once, two handfuls (a bias's sum had 5.2e-7).
FLOOR = (8 if torch.cuda.is_available() else 4) * torch.finfo(torch.float32).eps
# cuBLAS multiplies a single row exactly even where TF32 is allowed: there a kernel's error is that
# of operands rounded to 11 significant bits.
FLOOR_OF_ONE_ROW = {True: 2.0**-11, False: FLOOR}  # by whether products are TF32


def assert_each_near(
    ours: Mapping[str, Tensor | None],
    eager: Sequence[Tensor],
    exact: Sequence[Tensor],
    floor: float = FLOOR,
) -> None:
    """Relative errors in the Euclidean norm, tensor by tensor; NaN is no small error."""
    for (name, tensor), theirs, truth in zip(ours.items(), eager, exact, strict=True):
        assert tensor is not None, f"{name} has no gradient"
        assert tensor.dtype == theirs.dtype, f"{name} is {tensor.dtype}, eager's {theirs.dtype}"
        assert tensor.shape == theirs.shape, f"{name} is {tensor.shape}, eager's {theirs.shape}"
        error, allowed = relative_error(tensor, truth), 2 * relative_error(theirs, truth)
        _note(name, error, allowed)
        assert error <= max(allowed, floor), f"{name}: {error:.2e}, allowed {allowed:.2e}"


def _note(name: str, error: float, allowed: float) -> None:
    """Append a line to the file that KERNEL_ERRORS names, if any, for the report of a GPU."""
    if file := os.environ.get("KERNEL_ERRORS"):
        row = {"test": os.environ.get("PYTEST_CURRENT_TEST", ""), "tensor": name}
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(row | {"error": error, "allowed": allowed}) + "\n")


def relative_error(actual: Tensor, exact: Tensor) -> float:
    """|actual - exact| / |exact|."""
    exact = exact.detach()
    size = exact.norm().clamp_min(torch.finfo(torch.float64).tiny)
    return float((actual.detach().double() - exact).norm() / size)


def assert_near(
    ours: Mapping[str, Tensor | None],
    function: Function,
    arguments: Sequence[Any],
    cotangents: Sequence[Tensor],
    compute: Compute,
) -> None:
    """`ours`: the outputs of `function` and then the gradients of its arguments, in order, where
    its outputs' gradients are `cotangents`."""
    with eager_precision(compute, cotangents[0].device):
        eager = _results(function, arguments, cotangents)
    exact = _results(
        function,
        [copy.deepcopy(a).double() if isinstance(a, Tensor | nn.Module) else a for a in arguments],
        [cotangent.double() for cotangent in cotangents],
    )
    is_one_row = cotangents[0].numel() == cotangents[0].shape[-1]
    assert_each_near(ours, eager, exact, FLOOR_OF_ONE_ROW[compute.tf32 and is_one_row])


def _results(
    function: Function, arguments: Sequence[Any], cotangents: Sequence[Tensor]
) -> list[Tensor]:
    outputs = function(*arguments)
    wanted: list[Tensor] = []  # all tensors that want gradients
    for argument in arguments:
        if isinstance(argument, nn.Module):
            wanted += argument.parameters()
        elif isinstance(argument, Tensor):
            wanted.append(argument)
    gradients = torch.autograd.grad(outputs, wanted, cotangents, allow_unused=True)
    return [*outputs, *(g for g in gradients if g is not None)]


@contextmanager
def eager_precision(compute: Compute, device: torch.device) -> Iterator[None]:
    """Inside, PyTorch multiplies as `compute` says."""
    autocast: AbstractContextManager[Any] = torch.autocast(
        device.type, torch.bfloat16, enabled=compute.dtype is torch.bfloat16
    )
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = compute.tf32
    try:
        with autocast:
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class Draws:
    """Standard normal numbers from one seed, drawn on the CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.generator = device, torch.Generator().manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A leaf that wants gradients."""
        drawn = torch.randn(shape, generator=self.generator).to(self.device, dtype)
        return drawn.requires_grad_()

    def like(self, *outputs: Tensor) -> list[Tensor]:
        """Gradients for outputs."""
        return [self.normal(*o.shape, dtype=o.dtype).detach() for o in outputs]

    def block(self, width: int, heads: int) -> Block:
        """A block with every weight and bias far from 0 and 1, its products of size 1."""
        block = Block(width, heads)
        with torch.no_grad():
            for parameter in block.parameters():
                drawn = torch.randn(parameter.shape, generator=self.generator)
                if parameter.dim() == 2:
                    parameter.copy_(drawn / parameter.shape[1] ** 0.5)
                else:
                    parameter.add_(drawn, alpha=0.3)
        return block.to(self.device)

    def norm(self, width: int) -> nn.LayerNorm:
        """A norm of such a block."""
        return self.block(width, 1).norm_1


Results = dict[str, Tensor]

# Products of about size 1 in a model 32 wide. In one that magnifies what it reads, one rounding in
# the first loop can outweigh all others, and whose is larger, the kernels' or PyTorch's, is chance.
SPREAD = 0.15


def make_pair(device: torch.device, dtype: torch.dtype | None, **changes: Any) -> tuple[Model, ...]:
    """The same model twice, 32 wide: on kernels and eager; `dtype` of products."""
    pair = tuple(
        make_model(spread=SPREAD, **({"n_embd": 32} | changes)).to(device) for _ in range(2)
    )
    for model in pair:
        model.compute_dtype = dtype
    pair[0].run_segment = run_segment
    return pair


def prompts_for(model: Model) -> Batch:
    """Prompts of four points, of the model's device and dtype; on a GPU more of them."""
    weight = model.read_in.weight
    return Batch(*(part.to(weight) for part in draw_prompts(64 if weight.is_cuda else 2, 4)))


def step(
    model: Model, loops: int, window: int, grad_loops: int, only: int | None = None
) -> Results:
    """Predictions, and all gradients of a sum of theirs (of one loop's, where `only` says which),
    each prediction weighted differently."""
    model.zero_grad()
    predictions = model(prompts_for(model), loops, window, grad_loops=grad_loops)
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn(predictions.shape, generator=generator).to(predictions)
    weighted = predictions * weights
    (weighted if only is None else weighted[only]).sum().backward()
    named = model.named_parameters()
    gradients = {name: p.grad.clone() for name, p in named if p.grad is not None}
    return {"predictions": predictions.detach()} | gradients
