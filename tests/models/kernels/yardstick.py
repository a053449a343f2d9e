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

from looplab.models.blocks.gpt2 import Block
from looplab.models.kernels.common import Compute

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


def leaves(arguments: Sequence[Any]) -> list[Tensor]:
    """All tensors among the arguments that want gradients."""
    found: list[Tensor] = []
    for argument in arguments:
        if isinstance(argument, nn.Module):
            found += argument.parameters()
        elif isinstance(argument, Tensor):
            found.append(argument)
    return found


def _results(
    function: Function, arguments: Sequence[Any], cotangents: Sequence[Tensor]
) -> list[Tensor]:
    outputs = function(*arguments)
    wanted = leaves(arguments)
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
