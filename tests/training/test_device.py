"""Where a run computes and which backend makes its loops: chosen once, or refused; out of memory is
one line with what helps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError, RunError, out_of_memory
from looplab.evaluation.load import load_run
from looplab.models import Model
from looplab.models.cpu import CpuOperations
from looplab.models.kernels.choice import SHIPPED, Shape, read_table
from looplab.models.kernels.variants import Variants
from looplab.models.loops.loop import PLAIN, Loop, LoopState, StepContext
from looplab.models.segment import Segment, Span, run_segment
from looplab.show.evaluate import evaluate
from looplab.training import device, train
from looplab.training.device import Placement, place
from looplab.training.run_folder.checkpoint import saved_steps
from looplab.training.run_folder.run import run_folder
from tests.conftest import own_table
from tests.models.small import make_spec
from tests.training.tiny import after_step, assert_same_bits, saved_tensors, tiny


def test_a_cpu_is_exact_and_mixed_rounds_in_the_loops_without_gradients_alone() -> None:
    placement = place("cpu", "auto")
    assert (placement.device, placement.precision) == (torch.device("cpu"), "fp32")
    assert placement.prepare(Model(make_spec())).compute_dtype is None
    model = place("cpu", "mixed").prepare(Model(make_spec()))
    assert (model.compute_dtype, model.prefix_dtype) == (None, torch.bfloat16)


@pytest.mark.usefixtures("undrawn")
def test_what_a_notebook_has_set_changes_nothing(tmp_path: Path) -> None:
    """Nor do its settings change: gradients off, float64, another device, autocast, coarse
    products."""
    config = tiny(tmp_path / "plain", steps=2)
    plain = train(config)
    errors = evaluate(plain, prompts=8, resamples=20)["by_examples"]
    products = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    with torch.inference_mode(), torch.device("meta"):
        try:
            torch.set_default_dtype(torch.float64)
            products.fp32_precision = "bf16"
            with torch.autocast("cpu", dtype=torch.bfloat16):
                run = train(replace(config, folder=str(tmp_path / "set")))
                again = load_run(run.path)
                assert evaluate(again, prompts=8, resamples=20)["by_examples"] == errors
            assert torch.get_default_dtype() is torch.float64
            assert products.fp32_precision == "bf16"
            assert not torch.is_grad_enabled()
        finally:
            torch.set_default_dtype(torch.float32)
            products.fp32_precision = "none"
    for name, weights in plain.model.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], weights)
        assert not again.model.state_dict()[name].is_inference()


def test_threads_that_wait_long_are_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing where there is one thread, as in tests, or another library's threads."""
    monkeypatch.setattr(device, "SET_TOO_LATE", True)
    device.say_if_threads_spin.cache_clear()
    device.say_if_threads_spin()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert capsys.readouterr().err == ""
    device.say_if_threads_spin.cache_clear()
    device.say_if_threads_spin()
    device.say_if_threads_spin()
    linked = b"libgomp" in Path("/proc/self/maps").read_bytes()
    said = capsys.readouterr().err
    assert (said.count("import looplab first"), said.count("\n")) == (linked, linked)


@pytest.mark.parametrize("name", ["", "cuda:99", "vulkan"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(ConfigError, match=f"device cannot be '{name}' on this machine") as refused:
        place(name, "auto")
    assert refused.value.key == "device"


def test_the_run_says_what_helps_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(tmp_path)
    with monkeypatch.context() as patched:
        after_step(patched, 17, lambda: torch.empty(2**50, dtype=torch.float64))
        with pytest.raises(RunError, match=r"out of memory in a step; training\.shards=2 "):
            train(config)
    assert saved_steps(run_folder(config).checkpoints)[-1] == 10
    assert train(config).step == config.training.steps
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."))
    assert out_of_memory(MemoryError())


CUDA = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, cuda: Callable[..., None]) -> dict[str, Any]:
    """A machine that seems to have a GPU with all it takes; what the tests change of it."""
    machine: dict[str, Any] = {"capability": (9, 0), "shared": 227 * 1024, "triton": True}
    machine["programs"] = {"gcc"}
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
    for variable in ("CC", "TRITON_INTERPRET"):
        monkeypatch.delenv(variable, raising=False)
    return machine


def _refused(device: str, backend: str) -> None:
    with pytest.raises(ConfigError) as refused:
        place(device, "fp32", backend)
    assert refused.value.key == "backend"


def test_auto_is_our_kernels_on_a_gpu_and_a_backend_of_its_own_on_a_cpu(
    gpu: dict[str, Any],
) -> None:
    placement = place("auto", "auto")
    assert (placement.device.type, placement.backend) == ("cuda", "triton")
    assert place("cpu", "auto").backend == "cpu"
    _refused("cuda", "cpu")


def test_auto_is_what_the_table_has_ahead(
    gpu: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPLAB_CACHE", str(tmp_path))
    shape = Shape(256, 8, 1024, prompts=64, tokens=81)
    assert place("auto", "bf16", "auto", shape).backend == "triton"
    rows = [row | {"backend": "compile"} for row in read_table(SHIPPED)]
    of_bf16 = [row for row in rows if row["precision"] == "bf16"]
    own_table().write_text(json.dumps({"rows": of_bf16}), encoding="utf-8")
    assert place("auto", "bf16", "auto", shape).backend == "compile"
    assert place("auto", "bf16", "triton", shape).backend == "triton"
    assert place("auto", "tf32", "auto", shape).backend == "triton"
    gpu["triton"] = False
    assert place("auto", "bf16", "auto", shape).choice is None


@pytest.mark.parametrize(
    "lack", [{"capability": (7, 5)}, {"shared": 99 * 1024}, {"triton": False}, {"programs": set()}]
)
def test_auto_does_without_what_is_lacking(lack: dict[str, Any], gpu: dict[str, Any]) -> None:
    gpu.update(lack)
    assert place("auto", "auto").backend == "eager"
    _refused("cuda", "triton")


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
    tmp_path: Path, kernels: Callable[[Segment], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same run, whichever it is; its evaluation is always computed alike."""
    calls: list[int] = []

    def counting(
        loop: Loop,
        state: LoopState,
        e: Tensor,
        span: Span,
        context: StepContext = PLAIN,
        variants: Variants | None = None,
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


def test_words_are_answered_with_the_configuration_that_they_make() -> None:
    train_words: Any = train
    with pytest.raises(ConfigError) as mistake:
        train_words("task=linear", "seed=1")
    assert str(mistake.value) == "config must be a Config: train(Config.of('task=linear'))"
