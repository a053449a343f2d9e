"""Operations counted against the formula of arXiv 2604.21106, and against PyTorch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from reloop.models import Model, ModelSpec
from reloop.models.backends import vmap_backend
from reloop.models.flops import pass_costs
from reloop.tasks import Prompts

_TOKENS, _WIDTH = 32, 64


def _model(**settings: object) -> Model:
    values = {"n_embd": _WIDTH, "n_head": 4, "n_positions": _TOKENS, "block": "llama", "loops": 4}
    return Model(ModelSpec(dims=1, vocabulary=100, **{**values, **settings}))  # type: ignore[arg-type]


@pytest.mark.parametrize(("fwd_only", "full"), [(0, 4), (2, 2)])
def test_the_published_formula(fwd_only: int, full: int) -> None:
    model = _model(prelude=2, coda=1, n_layer=3, injection="concat")
    sizes = {name: p.numel() for name, p in model.named_parameters() if "norm" not in name}

    def of(part: str) -> int:
        return sum(size for name, size in sizes.items() if name.startswith(part))

    outside = of("loop.prelude") + of("loop.coda") + of("read_out")
    inside = of("loop.blocks") + of("loop.inject")
    expected = 6 * outside + (2 * fwd_only + 6 * full) * inside
    layers = 12 * (2 + 1) + (4 * fwd_only + 12 * full) * 3
    expected += layers * _WIDTH * _TOKENS
    found = pass_costs(model, _TOKENS).of_step(fwd_only + full, full, 1) / _TOKENS
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"family": "standard", "injection": "none", "n_layer": 3},
        {"injection": "none", "connectivity": "FLT", "n_layer": 2},
        {"injection": "concat", "prelude": 1, "coda": 1},
        {"tied_head": True},
    ],
)
def test_a_forward_pass_is_what_torch_counts(settings: dict[str, object]) -> None:
    model = _model(**settings)
    tokens = torch.zeros(1, _TOKENS, dtype=torch.int64)
    loops = 3
    # By plain products: the counter does not know the CPU's fused attention.
    with vmap_backend(model), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(Prompts(tokens, tokens), loops)
    assert pass_costs(model, _TOKENS).forward(loops) == pytest.approx(counter.get_total_flops())


def test_each_loop_in_the_loss_is_read_out() -> None:
    model = _model(injection="concat", prelude=1, coda=1)
    tokens = torch.zeros(1, _TOKENS, dtype=torch.int64)

    def counted(window: int) -> int:
        with vmap_backend(model), FlopCounterMode(display=False) as counter:
            model(Prompts(tokens, tokens), 3, window, grad_loops=3).sum().backward()
        return int(counter.get_total_flops())

    costs = pass_costs(model, _TOKENS)
    further = costs.of_step(3, 3, window=3) - costs.of_step(3, 3, window=1)
    assert counted(3) - counted(1) == pytest.approx(further)


def test_pairs_have_a_read_in() -> None:
    model = Model(ModelSpec(dims=5, n_embd=16, n_head=2, n_positions=9))
    block = 12 * 16**2
    costs = pass_costs(model, 17)
    assert costs.loop == 2 * 17 * block + 4 * 17**2 * 16
    assert costs.start + costs.read_out == 2 * 17 * (5 * 16 + 16)
