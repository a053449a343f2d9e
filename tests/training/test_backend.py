"""Which backend makes the loops: chosen with the device, said with the reason, or refused."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import read_config
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


def _refused(device: str, backend: str) -> str:
    with pytest.raises(ConfigError) as refused:
        place(device, "fp32", backend)
    assert refused.value.key == "backend"
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_auto_is_our_kernels_on_a_gpu(gpu: dict[str, Any]) -> None:
    placement = place("auto", "auto")
    assert (placement.device.type, placement.backend) == ("cuda", "triton")
    assert placement.why.endswith("backend triton (our own kernels for this GPU)")


@pytest.mark.parametrize(
    ("lack", "reason"),
    [
        ({"capability": (7, 5)}, "needs compute capability 8.0, and this GPU has 7.5"),
        ({"shared": 99 * 1024}, "needs 163 KiB of shared memory, and this GPU has 99"),
        ({"triton": False}, "needs the package triton, which is not installed"),
        ({"programs": {"g++"}}, "needs a C compiler (gcc or clang, or the one that CC names)"),
    ],
)
def test_auto_does_without_what_is_lacking_and_says_so(
    lack: dict[str, Any], reason: str, gpu: dict[str, Any]
) -> None:
    gpu.update(lack)
    placement = place("auto", "auto")
    assert placement.backend == "eager"
    assert placement.why.endswith(f"backend eager (triton {reason})")
    assert _refused("cuda", "triton") == f"backend cannot be triton on cuda:0: it {reason}"


def test_what_is_asked_for_is_taken(gpu: dict[str, Any]) -> None:
    for backend in ("eager", "compile", "triton"):
        placement = place("cuda", "auto", backend)
        assert placement.backend == backend
        assert placement.why.endswith(f"backend {backend} (as asked)")


@pytest.mark.parametrize(
    ("lack", "reason"),
    [
        ({"capability": (6, 1)}, "needs compute capability 7.0"),
        ({"triton": False}, "needs the package triton"),
        ({"programs": set()}, "needs a C compiler"),
    ],
)
def test_what_compiling_for_a_gpu_needs(
    lack: dict[str, Any], reason: str, gpu: dict[str, Any]
) -> None:
    gpu.update(capability=(7, 5))
    assert place("cuda", "auto", "compile").backend == "compile"
    gpu.update(lack)
    assert reason in _refused("cuda", "compile")


def test_a_compiler_may_be_named(gpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As Triton and PyTorch take it: then it is that one or none."""
    gpu["programs"] = {"mine"}
    monkeypatch.setenv("CC", "mine")
    monkeypatch.setenv("CXX", "mine")
    assert place("cuda", "auto").backend == "triton"
    assert place("cpu", "auto", "compile").backend == "compile"
    gpu["programs"] = {"gcc", "g++"}
    assert place("cuda", "auto").backend == "eager"
    assert "needs a C++ compiler" in _refused("cpu", "compile")


def test_python_s_headers_are_needed(
    gpu: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda *names: str(tmp_path))
    assert "triton needs Python's headers" in place("cuda", "auto").why
    assert "needs Python's headers" in _refused("cpu", "compile")


def test_a_cpu_has_a_backend_of_its_own(gpu: dict[str, Any]) -> None:
    assert place("cpu", "auto").backend == "cpu"
    assert "backend cpu (PyTorch, with oneDNN's products" in place("cpu", "auto").why
    assert "backend cannot be cpu on cuda:0: it needs a CPU" in _refused("cuda", "cpu")
    gpu["programs"] = set()
    assert _refused("cpu", "compile").startswith(
        "backend cannot be compile on cpu: it needs a C++ compiler ("
    )


def test_kernels_on_a_cpu_need_the_interpreter(
    gpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is never chosen unasked, and needs no compiler."""
    assert "it needs an NVIDIA GPU (TRITON_INTERPRET=1 runs it on a CPU" in _refused(
        "cpu", "triton"
    )
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert "NVIDIA GPU" in _refused("cpu", "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    gpu["programs"] = set()
    assert place("cpu", "auto", "triton").backend == "triton"
    assert place("cpu", "auto").backend == "cpu"
    gpu["triton"] = False
    assert "not installed" in _refused("cpu", "triton")


def test_other_devices_are_eager(gpu: dict[str, Any]) -> None:
    assert place("mps", "fp32").backend == "eager"
    assert "it needs an NVIDIA GPU" in _refused("mps", "triton")
    assert "it needs an NVIDIA GPU or a CPU" in _refused("mps", "compile")


@pytest.mark.parametrize("precision", ["bf16", "mixed"])
@pytest.mark.parametrize("backend", ["auto", "cpu"])
def test_a_cpu_without_bf16_products_is_eager_in_bf16(
    precision: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for has_products, expected in ((False, "eager"), (True, "cpu")):
        monkeypatch.setattr(device, "has_bf16_products", lambda has=has_products: has)
        assert place("cpu", precision, backend).backend == expected
        assert place("cpu", "fp32", backend).backend == "cpu"
    monkeypatch.setattr(device, "has_bf16_products", lambda: False)
    assert "eager (oneDNN has no bf16 products" in place("cpu", precision, backend).why


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


def test_a_wrong_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    config = replace(tiny(tmp_path / "runs"), backend="compiled")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="backend cannot be 'compiled'; did you mean 'compile'"):
        train(config)
    assert not (tmp_path / "runs").exists()


def test_a_run_computes_by_its_backend_and_says_so(
    tmp_path: Path,
    kernels: Callable[[Segment], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
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
    assert "backend eager (as asked)" in capsys.readouterr().out
    run = train(triton)
    assert len(calls) == 2 * 60
    assert "backend triton (as asked)" in capsys.readouterr().out
    assert_same_bits(saved_tensors(triton), saved_tensors(eager))
    evaluate(run, replace(triton.evaluation, prompts=4, resamples=2))
    assert len(calls) == 2 * 60
    assert run.model.run_segment is run_segment
    assert load_run(run.path).config.backend == "triton"


def test_a_measurement_is_exact_wherever(gpu: dict[str, Any]) -> None:
    placements = [place_exactly(name) for name in ("cpu", "cuda", "mps")]
    assert [each.backend for each in placements] == ["cpu", "eager", "eager"]
    assert {each.precision for each in placements} == {"fp32"}


def test_a_run_from_before_the_setting_is_read(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    folder = run_folder(config)
    folder.create(config)
    path = folder.path / "config.yaml"
    mapping = yaml.safe_load(path.read_text())
    assert mapping.pop("backend") == "auto"
    path.write_text(yaml.safe_dump(mapping))
    assert read_config(folder.path) == config
