"""Which backend makes the loops: chosen with the device, said with the reason, or refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.evaluation import evaluate, load_run
from looplab.models import Model
from looplab.models.cpu import CpuOperations
from looplab.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from looplab.models.segment import Segment, Span, run_segment
from looplab.training import device, train
from looplab.training.device import Placement, place, place_exactly
from looplab.training.run_folder.run import run_folder
from tests.models.small import make_spec
from tests.training.tiny import assert_same_bits, saved_tensors, tiny

CUDA = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, cuda: Callable[..., None]) -> dict[str, Any]:
    """A machine that seems to have a GPU with all it takes; what the tests change of it."""
    machine: dict[str, Any] = {"capability": (9, 0), "shared": 227 * 1024, "triton": True}
    machine["programs"] = {"gcc", "g++"}
    cuda(
        is_available=lambda: True,
        get_device_name=lambda device: "a GPU",
        get_device_capability=lambda device: machine["capability"],
        get_device_properties=lambda device: SimpleNamespace(
            shared_memory_per_block_optin=machine["shared"]
        ),
    )
    monkeypatch.setattr(shutil, "which", lambda name: name if name in machine["programs"] else None)
    monkeypatch.setattr(
        device, "find_spec", lambda name: SimpleNamespace(origin=name) if machine[name] else None
    )
    monkeypatch.setattr(
        device, "_resolve", lambda name: CUDA if name == "cuda" else torch.device(name)
    )
    for variable in ("CC", "CXX", "TRITON_INTERPRET"):
        monkeypatch.delenv(variable, raising=False)
    return machine


def _refused(device: str, backend: str) -> None:
    with pytest.raises(ConfigError) as refused:
        place(device, "fp32", backend)
    assert refused.value.key == "backend"


def test_auto_is_our_kernels_on_a_gpu(gpu: dict[str, Any]) -> None:
    placement = place("auto", "auto")
    assert (placement.device.type, placement.backend) == ("cuda", "triton")


@pytest.mark.parametrize(
    "lack",
    [{"capability": (7, 5)}, {"shared": 99 * 1024}, {"triton": False}, {"programs": {"g++"}}],
)
def test_auto_does_without_what_is_lacking(lack: dict[str, Any], gpu: dict[str, Any]) -> None:
    gpu.update(lack)
    assert place("auto", "auto").backend == "eager"
    _refused("cuda", "triton")


def test_what_is_asked_for_is_taken(gpu: dict[str, Any]) -> None:
    for backend in ("eager", "compile", "triton"):
        assert place("cuda", "auto", backend).backend == backend
    assert place("mps", "fp32").backend == "eager"
    _refused("mps", "triton")
    _refused("mps", "compile")


def test_a_cpu_has_a_backend_of_its_own(gpu: dict[str, Any]) -> None:
    assert place("cpu", "auto").backend == "cpu"
    _refused("cuda", "cpu")
    gpu["programs"] = set()
    _refused("cpu", "compile")


def test_kernels_on_a_cpu_need_the_interpreter(
    gpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is never chosen unasked, and needs no compiler."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    _refused("cpu", "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    gpu["programs"] = set()
    assert place("cpu", "auto", "triton").backend == "triton"
    assert place("cpu", "auto").backend == "cpu"


@pytest.mark.parametrize(("has", "expected"), [(False, "eager"), (True, "cpu")])
def test_a_cpu_without_bf16_products_is_eager_in_bf16(
    has: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "has_bf16_products", lambda: has)
    assert place("cpu", "bf16", "auto").backend == expected
    assert place("cpu", "mixed", "cpu").backend == expected
    assert place("cpu", "fp32", "cpu").backend == "cpu"


class Anywhere(Model):
    """A model that stays where it is."""

    def to(self, *_: Any, **__: Any) -> Anywhere:
        return self


@pytest.fixture
def matmul() -> Iterator[Any]:
    """PyTorch's settings of products on CUDA, as they were when the test is over."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    yield matmul
    matmul.allow_tf32 = before


def test_a_model_is_prepared(matmul: Any) -> None:
    """And TF32 is a matter of CUDA alone."""
    model, cpu = Anywhere(make_spec()), torch.device("cpu")
    matmul.allow_tf32 = True
    assert Placement(cpu, "bf16", "compile", "").prepare(model) is model
    assert model.compute_dtype is torch.bfloat16
    assert model.run_segment is not run_segment
    Placement(cpu, "fp32", "cpu", "").prepare(model)
    assert model.run_segment is run_segment
    assert isinstance(model.operations, CpuOperations)
    assert matmul.allow_tf32
    Placement(CUDA, "fp32", "eager", "").prepare(model)
    assert not matmul.allow_tf32
    Placement(CUDA, "tf32", "eager", "").prepare(model)
    assert matmul.allow_tf32


def test_a_run_computes_by_its_backend_and_says_so(
    tmp_path: Path,
    kernels: Callable[[Segment], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same run, whichever it is; its evaluation is always computed alike."""
    calls: list[int] = []

    def counting(
        loop: Loop, state: LoopState, e: Tensor, span: Span, context: StepContext = PLAIN
    ) -> tuple[LoopState, Tensor]:
        calls.append(span.count)
        return run_segment(loop, state, e, span, context)

    kernels(counting)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    eager = replace(tiny(tmp_path / "eager"), backend="eager")
    triton = replace(tiny(tmp_path / "triton"), backend="triton")
    assert run_folder(triton).path.name == run_folder(eager).path.name
    train(eager)
    assert not calls
    run = train(triton)
    assert len(calls) == 2 * 60
    assert_same_bits(saved_tensors(triton), saved_tensors(eager))
    evaluate(run, replace(triton.evaluation, prompts=4, resamples=2))
    assert len(calls) == 2 * 60
    assert run.model.run_segment is run_segment
    assert load_run(run.path).config.backend == "triton"


def test_a_measurement_is_exact_wherever(gpu: dict[str, Any]) -> None:
    placements = [place_exactly(name) for name in ("cpu", "cuda", "mps")]
    assert [each.backend for each in placements] == ["cpu", "eager", "eager"]
    assert {each.precision for each in placements} == {"fp32"}
