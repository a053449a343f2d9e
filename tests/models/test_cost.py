"""What a pass costs: operations, memory that depends on the window alone, and loops without
gradients that end where the state has settled."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from looplab.models import Model, ModelSpec
from looplab.models.flops import pass_costs
from looplab.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from looplab.models.operations import Cache, Operations, attend_by_products
from looplab.models.segment import Span, run_segment
from looplab.tasks import Prompts
from tests.models.small import as_double, draw_prompts, make_model, saved_bytes

_TOKENS, _WIDTH = 32, 64


class _ByProducts(Operations):
    """The counter does not know the CPU's fused attention."""

    def attend(self, heads: Tensor, mask: Tensor | None) -> Tensor:
        return attend_by_products(heads, mask)


def _counter(model: Model) -> FlopCounterMode:
    model.operations = _ByProducts()
    return FlopCounterMode(display=False)


def _model(**settings: object) -> Model:
    values = {"n_embd": _WIDTH, "n_head": 4, "n_positions": _TOKENS, "block": "llama", "loops": 4}
    return Model(ModelSpec(dims=1, vocabulary=100, **{**values, **settings}))  # type: ignore[arg-type]


def test_the_published_formula() -> None:
    fwd_only, full = 2, 2
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
        {
            **{"injection": "concat", "norm": "at_readout", "prelude": 1, "coda": 1},
            **{"block": "sandwich", "n_hidden": 40},
        },
    ],
)
def test_a_forward_pass_is_what_torch_counts(settings: dict[str, object]) -> None:
    model = _model(**settings)
    tokens = torch.zeros(1, _TOKENS, dtype=torch.int64)
    loops = 3
    with _counter(model) as counter, torch.no_grad():
        model(Prompts(tokens, tokens), loops)
    assert pass_costs(model, _TOKENS).forward(loops) == pytest.approx(counter.get_total_flops())


@pytest.mark.parametrize("connectivity", ["LT_i", "LT_ai", "FLT", "FLT_res"])
def test_all_connectivities_cost_what_the_plain_loop_does(connectivity: str) -> None:
    """arXiv 2605.18797, Section 5.1: at equal parameters and loops."""
    small = {"injection": "none", "block": "flt", "n_layer": 6}
    variant = pass_costs(_model(**small, connectivity=connectivity), _TOKENS).of_step(9, 9, 1)
    plain = pass_costs(_model(**small, connectivity="LT"), _TOKENS).of_step(9, 9, 1)
    assert variant == pytest.approx(plain, rel=0.05)


def test_each_loop_in_the_loss_is_read_out() -> None:
    model = _model(injection="concat", prelude=1, coda=1)
    tokens = torch.zeros(1, _TOKENS, dtype=torch.int64)

    def counted(window: int) -> int:
        with _counter(model) as counter:
            model(Prompts(tokens, tokens), 3, window, grad_loops=3).sum().backward()
        return int(counter.get_total_flops())

    costs = pass_costs(model, _TOKENS)
    further = costs.of_step(3, 3, window=3) - costs.of_step(3, 3, window=1)
    assert counted(3) - counted(1) == pytest.approx(further)


def test_a_token_after_a_cache_attends_to_all_tokens() -> None:
    """PyTorch's counter leaves out the fused attention: of three loops, one layer before and one
    after them."""
    model, cache = _model(injection="concat", prelude=1, coda=1), Cache()
    tokens = torch.zeros(1, _TOKENS, dtype=torch.int64)
    model.continue_text(tokens[:, 1:], 3, cache)
    with FlopCounterMode(display=False) as counter:
        model.continue_text(tokens[:, :1], 3, cache)
    attention = (3 * model.spec.n_layer + 2) * 4 * _TOKENS * model.spec.n_embd
    found = pass_costs(model, 1, context=_TOKENS).forward(3)
    assert found == counter.get_total_flops() + attention


def test_pairs_have_a_read_in() -> None:
    model = Model(ModelSpec(dims=5, n_embd=16, n_head=2, n_positions=9))
    block = 12 * 16**2
    costs = pass_costs(model, 17)
    assert costs.loop == 2 * 17 * block + 4 * 17**2 * 16
    assert costs.start + costs.read_out == 2 * 17 * (5 * 16 + 16)


def test_the_last_loop_computes_what_is_read_alone() -> None:
    """Of a prompt's 11 tokens its projection and its MLP see the 6 with a prediction."""
    model, prompts = make_model(), draw_prompts()

    def counted(loops: int) -> int:
        with _counter(model) as counter, torch.no_grad():
            model(prompts, loops)
        return int(counter.get_total_flops())

    outside = 2 * len(prompts.xs) * (11 * 3 * 16 + 6 * 16)
    each, last = counted(2) - counted(1), counted(1) - outside
    assert each - last == 2 * len(prompts.xs) * (11 - 6) * 9 * 16**2


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("changes", [{"n_layer": 2}, {"injection": "multiply"}])
def test_seventy_loops_keep_as_much_as_twenty(
    changes: dict[str, Any], dtype: torch.dtype | None
) -> None:
    """Whose gradients may reach further back than the window."""
    model = make_model(**changes)
    model.compute_dtype = dtype
    for window, reach in ((1, 1), (5, 5), (2, 8)):
        assert saved_bytes(model, 70, window, reach) == saved_bytes(model, 20, window, reach) > 0


def test_each_loop_of_the_window_keeps_the_same() -> None:
    model = make_model(injection="multiply")
    kept = [saved_bytes(model, 20, window) for window in range(1, 6)]
    differences = {more - less for less, more in pairwise(kept)}
    assert len(differences) == 1
    # At the least a loop's attention and MLP keep their inputs, 3 * 12 tokens 16 wide in float32.
    assert differences.pop() > 4 * 3 * 12 * 16 * 4


def test_evaluation_and_unrolling_keep_nothing() -> None:
    """The window's loops want gradients only where the caller does."""
    model = make_model()
    with torch.no_grad():
        assert saved_bytes(model, 20, 5) == 0
    saved: list[Tensor] = []
    with saved_tensors_hooks(saved.append, lambda _: torch.empty(0)):
        for state, prediction in model.unroll(draw_prompts(), 4):
            assert not state.stream.requires_grad
            assert not prediction.requires_grad
    assert not saved


LOOPS, WINDOW = 30, 2
PROMPTS = draw_prompts(batch=5)


def settling(layers: int = 1) -> tuple[Model, list[Span]]:
    """A model near its initial weights, whose state settles, and the spans that it makes."""
    model, spans = make_model(spread=0.05, n_layer=layers).double(), []

    def noting(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        spans.append(span)
        return run_segment(loop, state, e, span, context)

    model.run_segment = noting
    return model, spans


def outcome(model: Model, loops: int, stop_at: float = 0.0) -> tuple[Tensor, Tensor]:
    """Predictions of the window, and a gradient of theirs."""
    model.zero_grad()
    predictions = model(as_double(PROMPTS), loops, WINDOW, stop_at=stop_at)
    predictions.square().sum().backward()
    assert model.read_in.weight.grad is not None
    return predictions.detach(), model.read_in.weight.grad.clone()


def test_it_ends_at_the_first_loop_that_changes_the_median_prompt_no_more() -> None:
    model, spans = settling(layers=2)
    steps = list(model.unroll(as_double(PROMPTS), LOOPS))[1:]
    states = [state.stream[:, :-1].flatten(1) for state, _ in steps]  # without the last y
    for stop_at in (0.5, 0.03, 1e-3):
        changes = [
            ((b - a).norm(dim=1) / b.norm(dim=1)).sort().values[2] for a, b in pairwise(states)
        ]
        needed = 2 + next(i for i, change in enumerate(changes) if change <= stop_at)
        assert needed < LOOPS - WINDOW
        spans.clear()
        found = outcome(model, LOOPS, stop_at)
        assert sum(span.count for span in spans if not span.grad) == needed
        for ours, fewer in zip(found, outcome(model, needed + WINDOW), strict=True):
            assert torch.equal(ours, fewer)


@pytest.mark.parametrize(("restless", "needed"), [(2, 2), (3, LOOPS - WINDOW)])
def test_it_does_not_wait_for_prompts_that_never_settle(restless: int, needed: int) -> None:
    """Of five prompts the first few repeat two states in turn, and the others one."""
    model, spans = settling()

    def repeating(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        if span.grad:
            return run_segment(loop, state, e, span, context)
        spans.append(span)
        turned = torch.cat((-e[:restless], e[restless:]))
        stream = turned if span.first % 2 else e
        return LoopState(stream, stream), e.new_empty(0)

    model.run_segment = repeating
    outcome(model, LOOPS, 1e-3)
    assert sum(span.count for span in spans) == needed


def test_what_is_lost_is_what_the_loops_would_have_changed() -> None:
    """Nothing where it is never reached."""
    model, _ = settling()
    full, _ = outcome(model, LOOPS)
    assert torch.equal(outcome(model, LOOPS, 1e-300)[0], full)
    errors = [(outcome(model, LOOPS, s)[0] - full).norm() / full.norm() for s in (0.1, 1e-2, 1e-4)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


def test_a_state_that_is_not_finite_ends_nothing() -> None:
    model, spans = settling()
    with torch.no_grad():
        model.read_in.weight.fill_(torch.nan)
    model(as_double(PROMPTS), LOOPS, WINDOW, stop_at=1.0)
    assert sum(span.count for span in spans) == LOOPS
