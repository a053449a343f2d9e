"""Whole models on kernels against eager ones: predictions and all gradients; and what has no
kernel, which is eager's, as a line says once."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from looplab.models import Queries
from looplab.models.kernels import mlp, segment
from looplab.models.kernels.gather import Operation
from looplab.models.kernels.segment import run_segment
from looplab.models.kernels.variants import VARIANTS, Variants
from looplab.models.loops.loop import Loop, LoopState, StepContext
from looplab.models.segment import Segment, Span
from looplab.models.segment import run_segment as run_eager
from tests.models.kernels.yardstick import (
    SPREAD,
    Draws,
    Results,
    assert_each_near,
    make_pair,
    prompts_for,
    relative_error,
    step,
)
from tests.models.small import WAYS, Batch, draw_prompts, make_model, saved_bytes

UNNORMED: dict[str, Any] = {"injection": "none", "norm": "at_readout"}
# family, injection and layers, loops, window, grad_loops
CASES: list[tuple[dict[str, Any], int, int, int]] = [
    ({"injection": "add", "n_layer": 2}, 3, 1, 2),
    ({"injection": "multiply"}, 3, 2, 2),
    ({"family": "tied"}, 3, 2, 3),
    ({"family": "standard", "residual_scaling": "sqrt"}, 3, 1, 3),
    ({"injection": "multiply", "residual_scaling": "sqrt", "loops": 2}, 2, 1, 2),
    ({"family": "tied", "residual_scaling": "factored", "loops": 2, "n_layer": 2}, 2, 1, 2),
    (UNNORMED | {"residual_scaling": "factored", "loops": 2, "n_layer": 2}, 3, 1, 2),
    (UNNORMED | {"residual_scaling": "linear", "loops": 3}, 3, 3, 3),
]


def in_both_precisions(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Each case in fp32 and in bf16: one in two of the former and three in four of the latter are
    slow, so that a case is quick in one precision at most."""
    both = [(None, *case) for case in cases], [(torch.bfloat16, *case) for case in cases]
    slow = [n % 2 == 0 for n in range(len(cases))], [n % 4 > 0 for n in range(len(cases))]
    return [
        pytest.param(*case, marks=[pytest.mark.slow] * is_slow)
        for in_one, are_slow in zip(both, slow, strict=True)
        for case, is_slow in zip(in_one, are_slow, strict=True)
    ]


def check(
    device: torch.device, dtype: torch.dtype | None, changes: dict[str, Any], *sizes: Any
) -> None:
    """One step of a model on kernels, of the same in PyTorch and of the same in float64."""
    kernels, eager = make_pair(device, dtype, **changes)
    exact = make_pair(device, None, **changes)[1].double()
    ours, theirs, truth = (step(model, *sizes) for model in (kernels, eager, exact))
    assert ours.keys() == theirs.keys() == truth.keys()
    assert_each_near(ours, list(theirs.values()), list(truth.values()))


@pytest.mark.parametrize(
    ("dtype", "changes", "loops", "window", "grad_loops"), in_both_precisions(CASES)
)
def test_predictions_and_all_gradients_are_near(
    device: torch.device,
    dtype: torch.dtype | None,
    changes: dict[str, Any],
    loops: int,
    window: int,
    grad_loops: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    check(device, dtype, changes, loops, window, grad_loops)
    assert not capsys.readouterr().out  # whatever eager serves, a line says so


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_every_operation_by_its_last_variant_is_near(
    device: torch.device, dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = Variants(**{field: names[-1] for field, names in VARIANTS.items()})
    fused = segment._compute
    monkeypatch.setattr(segment, "_compute", lambda device, _: fused(device, variants))
    monkeypatch.delattr(mlp, "mlp_forward_kernel")  # that no step is fused after all
    monkeypatch.delattr(mlp, "mlp_backward_kernel")
    check(device, dtype, {"injection": "multiply"}, 3, 2, 2)


def test_a_loss_on_one_loop_of_the_window_has_near_gradients(device: torch.device) -> None:
    check(device, None, {"injection": "add"}, 3, 2, 2, 0)


@pytest.mark.parametrize(
    ("dtype", "changes"), [(None, {}), (torch.bfloat16, {"family": "standard"}), (None, UNNORMED)]
)
def test_unrolled_states_and_predictions_are_near(
    device: torch.device, dtype: torch.dtype | None, changes: dict[str, Any]
) -> None:
    kernels, eager = make_pair(device, dtype, **changes)
    exact = copy.deepcopy(eager).double()
    exact.compute_dtype = None
    ours, theirs, truth = (
        [(state.stream, state.raw, p) for state, p in m.unroll(prompts_for(m), 2)]
        for m in (kernels, eager, exact)
    )
    for t, results in enumerate(zip(ours, theirs, truth, strict=True)):
        named = zip((f"stream {t}", f"raw {t}", f"prediction {t}"), results[0], strict=True)
        assert_each_near(dict(named), *results[1:])


def last_state_gradients(run: Segment, loop: Loop, parts: Sequence[int], *, gaps: bool) -> Results:
    """Gradients of the last state's stream (0) or raw (1) or both, but not of what was kept; with
    `gaps` what goes in is not contiguous."""
    weight = loop.get_parameter("positions")
    draws = Draws(weight.device)
    e, stream = (draws.normal(2, 5, 64 if gaps else 32, dtype=weight.dtype) for _ in range(2))
    start = stream[..., ::2] if gaps else stream
    given, span = e[..., ::2] if gaps else e, Span(0, 2, keep=2, grad=True)
    state, _ = run(loop, LoopState(start, start), given, span, StepContext(0.7))
    wanted = {"e": e, "stream": stream} | dict(loop.named_parameters())
    outputs = [(state.stream, state.raw)[part] for part in parts]
    found = torch.autograd.grad(
        outputs, list(wanted.values()), draws.like(*outputs), allow_unused=True
    )
    return {name: g for name, g in zip(wanted, found, strict=True) if g is not None}


@pytest.mark.parametrize(("parts", "gaps"), [((1,), False), ((0, 1), True)])
def test_gradients_of_the_last_state_alone_are_near(
    device: torch.device, parts: Sequence[int], gaps: bool
) -> None:
    """What nobody asks a gradient of leaves none."""
    loop = make_model(n_embd=32, spread=SPREAD).to(device).loop
    ours, theirs = (
        last_state_gradients(run, loop, parts, gaps=gaps) for run in (run_segment, run_eager)
    )
    truth = last_state_gradients(run_eager, loop.double(), parts, gaps=gaps)
    assert ours.keys() == theirs.keys()
    assert_each_near(ours, list(theirs.values()), list(truth.values()))


def test_a_pass_that_wants_no_weights_leaves_nothing_to_the_next(device: torch.device) -> None:
    loop = make_model(n_embd=32, spread=SPREAD, injection="multiply").to(device).loop
    e, stream = (Draws(device).normal(2, 5, 32) for _ in range(2))
    start = LoopState(stream, stream)
    state, _ = run_segment(loop, start, e, Span(0, 2, grad=True))
    wanted = (e, loop.get_parameter("positions"))
    once, _, again = (
        torch.autograd.grad(state.stream.square().sum(), inputs, retain_graph=True)
        for inputs in (wanted, stream, wanted)
    )
    for first, second in zip(once, again, strict=True):
        assert torch.equal(first, second)


def test_two_equal_runs_give_equal_bits(device: torch.device) -> None:
    first, second = (
        step(make_pair(device, torch.bfloat16, injection="multiply")[0], 3, 2, 2) for _ in range(2)
    )
    for name, result in first.items():
        assert torch.equal(result, second[name]), name


def test_more_loops_keep_no_more(device: torch.device) -> None:
    model, _ = make_pair(device, torch.bfloat16)
    assert saved_bytes(model, 5, 2) == saved_bytes(model, 2, 2) > 0


def test_without_gradients_nothing_is_kept(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by autograd nor by an operation for its weights."""
    model, _ = make_pair(device, None)
    monkeypatch.delattr(Operation, "slot")
    with torch.no_grad():
        assert saved_bytes(model, 3, 2) == 0


def test_a_window_in_another_precision_casts_for_itself(device: torch.device) -> None:
    """What a prefix cast to bfloat16, as with precision=mixed, is not used in float32."""
    model, _ = make_pair(device, None)
    e = Draws(device).normal(2, 7, 32).detach()
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        state, _ = model.run_segment(model.loop, model.loop.start(e), e, Span(0, 3))
    _, ours = model.run_segment(model.loop, state, e, Span(3, 1, keep=1))
    exact = LoopState(state.stream.double(), state.raw.double())
    _, theirs = run_eager(model.double().loop, exact, e.double(), Span(3, 1, keep=1))
    assert relative_error(ours, theirs) < 1e-5


@pytest.fixture(autouse=True)
def _untold() -> Iterator[None]:
    """As in a process that has said nothing yet."""
    segment._say.cache_clear()
    yield
    segment._say.cache_clear()


def said(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    (line,) = capsys.readouterr().out.splitlines()
    assert reason in line


@pytest.mark.parametrize(
    ("dtype", "changes", "reason"),
    [
        (None, {"n_embd": 48}, "n_embd"),
        (None, {"n_embd": 544}, "n_embd"),
        (None, {"n_embd": 288, "n_head": 9}, "n_embd"),
        (None, {"n_embd": 128, "n_head": 1}, "heads"),
        (torch.float16, {"injection": "add"}, "torch.float16"),
        (None, WAYS["FLT"], "ConnectedLoop"),
        (None, WAYS["recurrent, add"], "RecurrentLoop"),
        (None, WAYS["unnormed, prelude"], "RecurrentLoop"),
        (None, WAYS["shared, llama"], "PreNormBlock"),
    ],
)
def test_what_has_no_kernel(
    device: torch.device,
    capsys: pytest.CaptureFixture[str],
    dtype: torch.dtype | None,
    changes: dict[str, Any],
    reason: str,
) -> None:
    """Two steps of both: equal bits, and one line that names the reason."""
    pair = make_pair(device, dtype, **changes)
    for _ in range(2):
        ours, eager = (step(model, 3, 2, 2) for model in pair)
        assert ours.keys() == eager.keys()
        for name, result in eager.items():
            assert torch.equal(ours[name], result), name
    said(reason, capsys)


def test_more_tokens_than_a_kernel_takes(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair(device, None, n_positions=513)
    prompts = Batch(*(part.to(device) for part in draw_prompts(1, 513)))
    ours, eager = (model(prompts, 2) for model in pair)
    assert torch.equal(ours, eager)
    said("tokens", capsys)


def test_queries(device: torch.device, capsys: pytest.CaptureFixture[str]) -> None:
    """In both segments of a pass, and in every step that is unrolled."""
    pair = make_pair(device, None)
    prompts = prompts_for(pair[0])
    queries = Queries(prompts.xs[:, :2], torch.tensor([3, 1]))
    ours, eager = (model(prompts, 3, 2, queries=queries) for model in pair)
    assert torch.equal(ours, eager)
    for (ours_at, _), (eager_at, _) in zip(
        *(model.unroll(prompts, 2, queries) for model in pair), strict=True
    ):
        assert torch.equal(ours_at.stream, eager_at.stream)
    said("queries", capsys)
