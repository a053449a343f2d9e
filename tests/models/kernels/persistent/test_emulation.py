"""The persistent loop's arithmetic against eager PyTorch: exact without rounding, in bf16 at most
twice as far from float64 as eager, however the work is divided."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from reloop.models.blocks.spec import BlockSpec
from reloop.models.kernels import segment
from reloop.models.kernels.common import Compute
from reloop.models.kernels.persistent import emulation
from reloop.models.kernels.persistent.emulation import normalise, run_prefix
from reloop.models.kernels.persistent.plan import Plan
from reloop.models.loops.loop import LoopState, SharedLoop, StepContext
from reloop.models.segment import Span
from reloop.models.segment import run_segment as run_eager
from tests.models.kernels.small_loops import make_pair, prompts_for
from tests.models.kernels.yardstick import FLOOR, assert_each_near, eager_precision, relative_error

BF16, EXACT = Compute(torch.bfloat16), Compute(torch.float64)
INJECTIONS = ["add", "multiply", "none"]
DIVIDED = [(1, 1), (1, 2), (1, 4), (2, 1), (4, 1), (2, 2)]  # CTAs for features, for tokens


class Case(NamedTuple):
    """A loop, and the state and the prompts that it starts from."""

    loop: SharedLoop
    stream: Tensor
    e: Tensor

    @property
    def double(self) -> Case:
        """The same in float64."""
        return Case(copy.deepcopy(self.loop).double(), self.stream.double(), self.e.double())

    def eager(self, count: int, scale: float) -> LoopState:
        """The state by plain PyTorch."""
        start = LoopState(self.stream, self.stream)
        return run_eager(self.loop, start, self.e, Span(0, count), StepContext(scale))[0]

    def emulated(
        self, compute: Compute, count: int, scale: float, plan: Plan | None = None
    ) -> LoopState:
        """The state by the persistent loop's arithmetic."""
        return run_prefix(self.loop, self.stream, self.e, compute, count, scale, plan)


def make_case(
    length: int, width: int = 256, heads: int = 8, prompts: int = 1, layers: int = 1,
    injection: str = "add",
) -> Case:  # fmt: skip
    """A loop with every weight, bias and norm far from 0 and 1. Its branches are half as large as
    the stream: in a loop that magnifies what it reads, whose rounding is larger is chance."""
    draws = torch.Generator().manual_seed(length)
    loop = SharedLoop(BlockSpec(width, heads, layers, length=length), injection)
    with torch.no_grad():
        for name, parameter in loop.named_parameters():
            drawn = torch.randn(parameter.shape, generator=draws)
            if parameter.dim() == 2 and name != "positions":
                parameter.copy_(drawn * 0.5 / parameter.shape[1] ** 0.5)
            else:
                ones = parameter.new_ones(()) if "norm" in name and "weight" in name else 0
                parameter.copy_(ones + 0.3 * drawn)
    e = torch.randn(prompts, length, width, generator=draws)
    return Case(loop, loop.start(e).stream, e)


def check(case: Case, count: int, scale: float, plan: Plan | None = None) -> None:
    """The yardstick of the kernels, on both parts of the state."""
    ours = case.emulated(BF16, count, scale, plan)
    with eager_precision(BF16, case.e.device):
        eager = case.eager(count, scale)
    truth = case.double.eager(count, scale)
    assert_each_near({"stream": ours.stream, "raw": ours.raw}, eager[:2], truth[:2])


@pytest.mark.parametrize(("length", "injection"), [(81, "add"), (81, "multiply"), (201, "none")])
def test_twenty_loops_at_the_papers_size_are_near(length: int, injection: str) -> None:
    check(make_case(length, injection=injection), 20, 1.0)


@pytest.mark.parametrize("injection", INJECTIONS)
@pytest.mark.parametrize(("features", "tokens"), DIVIDED)
def test_every_division_is_near(features: int, tokens: int, injection: str) -> None:
    case = make_case(23, prompts=3, layers=2, injection=injection)
    check(case, 3, 0.7, Plan(23, features=features, tokens=tokens))


@pytest.mark.parametrize("injection", INJECTIONS)
@pytest.mark.parametrize(("features", "tokens"), DIVIDED)
def test_without_rounding_it_is_the_loop(features: int, tokens: int, injection: str) -> None:
    case = make_case(23, prompts=2, layers=2, injection=injection).double
    plan = Plan(23, features=features, tokens=tokens)
    ours, exact = case.emulated(EXACT, 4, 0.6, plan), case.eager(4, 0.6)
    torch.testing.assert_close(ours.stream, exact.stream, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.raw, exact.raw, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("length", "width", "heads"), [(1, 64, 4), (8, 64, 1), (23, 128, 2), (81, 192, 3), (201, 64, 2)]
)
def test_other_shapes_without_rounding(length: int, width: int, heads: int) -> None:
    case = make_case(length, width, heads, prompts=2).double
    ours, exact = case.emulated(EXACT, 2, 1.0), case.eager(2, 1.0)
    torch.testing.assert_close(ours.stream, exact.stream, rtol=1e-10, atol=1e-10)


def test_a_division_changes_the_order_of_sums_alone() -> None:
    """In float64, where that order does not matter, operands are rounded to the same bf16."""
    case = make_case(73).double
    whole, *others = (
        case.emulated(BF16, 3, 0.7, Plan(73, features=f, tokens=t)) for f, t in DIVIDED
    )
    assert relative_error(whole.stream, case.eager(3, 0.7).stream) > 1e-4
    for other in others:
        torch.testing.assert_close(other.stream, whole.stream, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mistake", ["partial sum", "keys", "statistics"])
def test_a_forgotten_share_is_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another CTA should have sent is left out."""
    plan = Plan(23, features=2, tokens=2)
    if mistake == "partial sum":
        monkeypatch.setattr(emulation, "add_partial", lambda parts: parts[0])
    elif mistake == "statistics":
        merge = emulation.merge
        monkeypatch.setattr(
            emulation, "merge", lambda shares: shares[0] if len(shares) == 2 else merge(shares)
        )
    else:
        gather = emulation.all_tokens

        def own_alone(heads: Tensor, prompts: int, plan: Plan) -> Tensor:
            kept = heads.clone()
            kept[:, kept.shape[1] // 2 :] = 0
            return gather(kept, prompts, plan)

        monkeypatch.setattr(emulation, "all_tokens", own_alone)
    with pytest.raises(AssertionError, match="allowed"):
        check(make_case(23), 2, 1.0, plan)


@pytest.mark.parametrize("features", [1, 2])
def test_a_norm_of_nearly_equal_features_is_near(features: int) -> None:
    """A mean a thousand times the spread, where a difference of squares would keep no digit."""
    norm = make_case(8).loop.norm
    assert isinstance(norm, nn.LayerNorm)
    x = 1000 + torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    exact = norm.double()(x.T.double()).T
    theirs = norm.float()(x.T).T
    ours = normalise(x, norm, Plan(8, features=features, tokens=1))
    assert relative_error(ours, exact) <= max(2 * relative_error(theirs, exact), FLOOR)


def test_a_shape_that_the_plan_refuses() -> None:
    with pytest.raises(ValueError, match="no persistent loop: the width must be a multiple of 64"):
        make_case(3, 96, 3).emulated(BF16, 1, 1.0)


def test_it_takes_the_place_of_the_kernels_prefix(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model whose first loops, without gradients, go by the emulation, the others by kernels."""
    kernels, eager = make_pair(device, torch.bfloat16, n_embd=64, injection="multiply")
    exact = copy.deepcopy(eager).double()
    exact.compute_dtype = None
    theirs, truth = (model(prompts_for(model), 4, grad_loops=1) for model in (eager, exact))
    counts: list[int] = []

    def counted(*arguments: Any) -> LoopState:
        counts.append(arguments[4])
        return run_prefix(*arguments)

    monkeypatch.setattr(segment, "run_prefix", counted)
    ours = kernels(prompts_for(kernels), 4, grad_loops=1)
    assert counts == [3]
    assert_each_near({"predictions": ours}, [theirs], [truth])
