"""Every backend makes the same loops; what it compiles, it compiles few times."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import FailOnRecompileLimitHit

from looplab.models import Model, Queries
from looplab.models.backends import segment, use_backend
from looplab.models.cpu import CpuOperations
from looplab.models.operations import Operations
from looplab.models.segment import Segment, run_segment
from tests.models.small import WAYS, draw_prompts, make_model, make_spec

# Family and shape; loops, window, loops with gradients; how many versions it may have: the first
# loop of a connected one is another, and so is that of lanes, whose step looks up weights of its
# own.
CASES: dict[str, tuple[dict[str, Any], tuple[int, int, int], int]] = {
    "multiply": ({"injection": "multiply", "n_layer": 2}, (5, 3, 3), 4),
    "standard": ({"family": "standard", "n_layer": 5}, (5, 1, 5), 4),
    "add, no prefix": ({}, (3, 2, 3), 4),
    "tied": ({"family": "tied"}, (4, 1, 4), 4),
    "recurrent": (WAYS["recurrent"], (5, 3, 3), 4),
    "FLT": (WAYS["FLT"], (5, 3, 3), 6),
    "sandwich": (WAYS["unnormed, sandwich"], (5, 3, 3), 4),
    "lanes": (WAYS["lanes, coda"] | {"loops": 5}, (5, 1, 5), 4),
}
QUICK = ("multiply", "standard")


def outcome(model: Model, counts: tuple[int, int, int], points: int = 6) -> dict[str, Tensor]:
    """Predictions and the gradients of their mean square."""
    loops, window, grad_loops = counts
    model.zero_grad()
    predictions = model(draw_prompts(points=points), loops, window, grad_loops=grad_loops)
    predictions.square().mean().backward()
    gradients: dict[str, Any] = {name: p.grad for name, p in model.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values())
    return gradients | {"predictions": predictions.detach()}


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


def test_backends_by_name(kernels: Callable[[Segment], None]) -> None:
    """Eager is the reference; Triton is imported when it is asked for."""
    model = make_model()
    assert model.run_segment is run_segment
    for name, operations in (("cpu", CpuOperations), ("eager", Operations)):
        use_backend(model, name)
        assert model.run_segment is run_segment
        assert type(model.operations) is operations
    kernels(run_segment)
    assert segment("triton") is run_segment
    with pytest.raises(ValueError, match="eager, cpu, compile or triton, got 'jax'"):
        segment("jax")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_compiled_steps_are_the_steps(name: str, versions: list[nn.Module]) -> None:
    _check_steps(name)
    assert 0 < len(versions) <= CASES[name][2]


def _check_steps(name: str) -> None:
    changes, counts, _ = CASES[name]
    eager, compiled = make_model(**changes), make_model(**changes)
    compiled.run_segment = segment("compile")
    for points in (6, 4, 5):
        ours, theirs = outcome(compiled, counts, points), outcome(eager, counts, points)
        assert ours.keys() == theirs.keys()
        for part, tensor in theirs.items():
            torch.testing.assert_close(ours[part], tensor, rtol=1e-4, atol=1e-5, msg=part)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_generated_code_learns_the_same(name: str) -> None:
    _check_steps(name)


def test_a_scale_that_follows_the_loops_does_not_compile_anew(versions: list[nn.Module]) -> None:
    """1, 1/2, … 1/20: more values than one function may have versions."""
    changes: dict[str, Any] = {"injection": "none", "norm": "at_readout"}
    changes["residual_scaling"] = "linear"
    eager, compiled = make_model(**changes), make_model(**changes)
    compiled.run_segment = segment("compile")
    for loops in range(1, 21):
        ours, theirs = (
            model(draw_prompts(), loops, grad_loops=loops, scale_loops=loops)
            for model in (compiled, eager)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert 0 < len(versions) <= 4


def test_compiled_steps_answer_queries(versions: list[nn.Module]) -> None:
    """One version without gradients, and one more for all other lengths."""
    changes, (loops, window, grad_loops), _ = CASES["multiply"]
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
