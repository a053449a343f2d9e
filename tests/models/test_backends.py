"""Every backend makes the same loops; what it compiles, it compiles few times."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import FailOnRecompileLimitHit

from looplab.models import Model, Queries
from looplab.models.backends import segment
from looplab.models.segment import Segment, run_segment
from tests.models.small import WAYS, draw_prompts, make_model, make_spec

compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
# Family and shape; loops, window, loops with gradients.
CASES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "add": ({}, (5, 3, 3)),
    "multiply": ({"injection": "multiply", "n_layer": 2}, (5, 3, 3)),
    "no prefix": ({}, (3, 2, 3)),
    "tied": ({"family": "tied"}, (4, 1, 4)),
    "standard": ({"family": "standard", "n_layer": 5}, (5, 1, 5)),
}
# More ways to loop, and how many versions each may have: the first loop of a connected one is
# another, and so is that of lanes, whose step looks up weights of its own.
MORE: dict[str, tuple[dict[str, Any], tuple[int, int, int], int]] = {
    "FLT": (WAYS["FLT"], (5, 3, 3), 6),
    "recurrent": (WAYS["recurrent"], (5, 3, 3), 4),
    "lanes": (WAYS["lanes, coda"] | {"loops": 5}, (5, 1, 5), 4),
}


def outcome(model: Model, counts: tuple[int, int, int], points: int = 6) -> dict[str, Tensor]:
    """Predictions and the gradients of their mean square."""
    loops, window, grad_loops = counts
    model.zero_grad()
    predictions = model(draw_prompts(points=points), loops, window, grad_loops=grad_loops)
    predictions.square().mean().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values())
    return {"predictions": predictions.detach()} | {
        k: g for k, g in gradients.items() if g is not None
    }


def assert_near(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """Compiling without code generation: seconds less, and every version that is made is noted."""
    made: list[nn.Module] = []

    def note(graph: nn.Module, inputs: list[Tensor]) -> nn.Module:
        made.append(graph)
        return graph

    compile = torch.compile

    def noting(function: Callable[..., Any], **settings: Any) -> Any:
        return compile(function, backend=note, **settings)

    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", noting)
    return made


def test_eager_is_the_reference() -> None:
    assert segment("eager") is run_segment
    assert make_model().run_segment is run_segment


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="eager, cpu, compile or triton, got 'jax'"):
        segment("jax")


def test_triton_is_imported_when_it_is_asked_for(kernels: Callable[[Segment], None]) -> None:
    kernels(run_segment)
    assert segment("triton") is run_segment


@pytest.mark.parametrize("name", CASES)
def test_compiled_steps_are_the_steps(name: str, versions: list[nn.Module]) -> None:
    changes, counts = CASES[name]
    eager, compiled = make_model(**changes), make_model(**changes)
    compiled.run_segment = segment("compile")
    for points in (6, 4, 5):
        assert_near(outcome(compiled, counts, points), outcome(eager, counts, points))
    assert 0 < len(versions) <= 4


@pytest.mark.parametrize(
    "name",
    ["recurrent", *(pytest.param(name, marks=pytest.mark.slow) for name in ("FLT", "lanes"))],
)
def test_other_ways_to_loop_compile_few_times(name: str, versions: list[nn.Module]) -> None:
    changes, counts, most = MORE[name]
    eager, compiled = make_model(**changes), make_model(**changes)
    compiled.run_segment = segment("compile")
    for points in (6, 4, 5):
        assert_near(outcome(compiled, counts, points), outcome(eager, counts, points))
    assert 0 < len(versions) <= most


def test_a_scale_that_follows_the_loops_does_not_compile_anew(versions: list[nn.Module]) -> None:
    """1, 1/2, … 1/20: more values than one function may have versions."""
    changes: dict[str, Any] = {
        "injection": "none",
        "norm": "at_readout",
        "residual_scaling": "linear",
    }
    eager, compiled = make_model(**changes), make_model(**changes)
    compiled.run_segment = segment("compile")
    for loops in range(1, 21):
        ours, theirs = (
            model(draw_prompts(), loops, grad_loops=loops, scale_loops=loops)
            for model in (compiled, eager)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert 0 < len(versions) <= 4


def test_unrolling_compiled_steps(versions: list[nn.Module]) -> None:
    eager, compiled = make_model(), make_model()
    compiled.run_segment = segment("compile")
    for (ours, prediction), (theirs, expected) in zip(
        compiled.unroll(draw_prompts(), 4), eager.unroll(draw_prompts(), 4), strict=True
    ):
        torch.testing.assert_close(ours.raw, theirs.raw)
        torch.testing.assert_close(prediction, expected)


@pytest.mark.parametrize("name", ["multiply", "standard"])
def test_compiled_steps_answer_queries(name: str, versions: list[nn.Module]) -> None:
    """One version without gradients, and one more for all other lengths."""
    changes, (loops, window, grad_loops) = CASES[name]
    eager, compiled = make_model(**changes), make_model(**changes)
    compiled.run_segment = segment("compile")
    for points in (6, 4, 5):
        prompts = draw_prompts(points=points)
        queries = Queries(draw_prompts(points=3, seed=5).xs, torch.tensor([0, points, 2]))
        with torch.no_grad():
            ours, theirs = (
                model(prompts, loops, window, grad_loops=grad_loops, queries=queries)
                for model in (compiled, eager)
            )
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert 0 < len(versions) <= 2


def test_loops_and_lengths_do_not_compile_anew(versions: list[nn.Module]) -> None:
    """Two versions at first and two for all other lengths: sixteen of these are fewer than the
    versions that one function may have."""
    model = Model(make_spec(n_positions=20))
    model.run_segment = segment("compile")
    for loops in (3, 4, 5, 9):
        outcome(model, (loops, 2, 2), points=3)
    assert len(versions) == 2
    for points in range(4, 20):
        outcome(model, (points, 2, 2), points)
    assert len(versions) == 4


def test_layers_are_compiled_as_one(versions: list[nn.Module]) -> None:
    """Twelve layers are more than the versions that PyTorch makes of one function by default."""
    model = Model(make_spec("standard", n_layer=12))
    model.run_segment = segment("compile")
    outcome(model, (12, 1, 12))
    assert len(versions) == 1


@pytest.mark.slow
def test_runs_in_one_process_do_not_use_up_each_other_s_versions(versions: list[nn.Module]) -> None:
    for width in range(4, 4 + 2 * 12, 2):
        model = Model(make_spec(n_embd=width))
        model.run_segment = segment("compile")
        outcome(model, (4, 2, 2))
    assert len(versions) == 24


@pytest.mark.slow
def test_too_many_versions_are_an_error(versions: list[nn.Module]) -> None:
    """Rather than steps that are silently not compiled: twice the versions of PyTorch's default."""
    run = segment("compile")

    def all_widths() -> None:
        for width in range(4, 4 + 2 * 20, 2):
            model = Model(make_spec(n_embd=width))
            model.run_segment = run
            outcome(model, (2, 2, 2))

    with pytest.raises(FailOnRecompileLimitHit):
        all_widths()
    assert len(versions) == 16
    assert torch._dynamo.config.recompile_limit == 8  # that of other code in this process


@compiler
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_generated_code_predicts_the_same(dtype: torch.dtype | None) -> None:
    """Without gradients, which is the quicker half to compile."""
    eager, compiled = Model(make_spec(n_embd=32)), Model(make_spec(n_embd=32))
    compiled.run_segment = segment("compile")
    with torch.no_grad():
        for model in (eager, compiled):
            model.compute_dtype = dtype
        ours, theirs = (model(draw_prompts(), 4, 4) for model in (compiled, eager))
    rtol, atol = (1e-4, 1e-5) if dtype is None else (2e-2, 2e-2)
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol)


@compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_generated_code_learns_the_same(name: str) -> None:
    changes, counts = CASES[name]
    eager, compiled = make_model(**changes), make_model(**changes)
    compiled.run_segment = segment("compile")
    for points in (6, 4, 5):
        assert_near(outcome(compiled, counts, points), outcome(eager, counts, points))
