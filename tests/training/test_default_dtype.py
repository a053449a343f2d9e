"""PyTorch's default dtype, which other packages change, changes no number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from reloop.evaluation import evaluate
from reloop.models import Model
from reloop.tasks import SHIFTS, Prompts, make_task
from reloop.training import train
from tests.models.small import WAYS, make_spec
from tests.training.tiny import assert_same_bits, saved_tensors, tiny

TASKS = (
    *("linear", "sparse_linear", "noisy_linear", "relu_network", "decision_tree", "halfspaces"),
    *("conditioned_linear", "mixture"),
)
MODELS = {"looped": {}, "standard": {"family": "standard"}, **WAYS}
MODELS["linear attention"] = {"injection": "linear_attention", "n_embd": 3, "n_head": 1}


@pytest.fixture
def in_double() -> Iterator[Callable[[Callable[[], list[Tensor]]], list[Tensor]]]:
    """Calls a function where float64 is the default."""
    before = torch.get_default_dtype()

    def call(function: Callable[[], list[Tensor]]) -> list[Tensor]:
        torch.set_default_dtype(torch.float64)
        try:
            return function()
        finally:
            torch.set_default_dtype(before)

    yield call
    torch.set_default_dtype(before)


InDouble = Callable[[Callable[[], list[Tensor]]], list[Tensor]]


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype is other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", TASKS)
def test_prompts(name: str, in_double: InDouble) -> None:
    def drawn() -> list[Tensor]:
        found: list[Prompts] = []
        for distinct in (0, 4):
            task = make_task(name, 5, distinct)
            found.append(task.sample(torch.Generator().manual_seed(0), 4, 7, dims=5))
        for shift in SHIFTS.values():
            shifted = shift.sample(task.for_evaluation(), torch.Generator().manual_seed(0), 4, 7)
            found += [shifted.prompts, shifted.queries]
        return [part for prompts in found for part in (prompts.xs, prompts.ys)]

    assert_same(in_double(drawn), drawn())


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, in_double: InDouble) -> None:
    source = torch.Generator().manual_seed(0)
    xs, ys = (torch.randn(2, 4, *end, generator=source) for end in ((3,), ()))

    def computed() -> list[Tensor]:
        model = Model(make_spec(**MODELS[name]))
        loops = model.loop.most_loops or 3
        predictions = model(Prompts(xs, ys), loops, 1)
        predictions.square().mean().backward()
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        unrolled = [each for _, each in model.unroll(Prompts(xs, ys), loops)]
        return [*model.state_dict().values(), predictions.detach(), *gradients, *unrolled]

    assert_same(in_double(computed), computed())


def test_training_and_evaluation(
    tmp_path: Path, in_double: InDouble, undrawn: dict[str, Figure]
) -> None:
    configs = {
        name: replace(tiny(tmp_path / name, steps=5, ema_decay=0.9, jacobian_penalty=0.1))
        for name in ("single", "double")
    }
    errors = {}

    def trained(name: str) -> list[Tensor]:
        run = train(configs[name])
        errors[name] = evaluate(run)["by_loop"]["model"]["mean"]
        return list(run.model.state_dict().values())

    assert_same(in_double(lambda: trained("double")), trained("single"))
    assert errors["double"] == errors["single"]
    assert_same_bits(*(saved_tensors(config) for config in configs.values()))
