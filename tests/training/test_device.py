"""Where a run computes: chosen once, said with the reason, and refused in one line; out of memory
is one line with what helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from looplab.conf.mistakes import ConfigError, RunError, out_of_memory
from looplab.conf.schema import CurriculumConfig, GrowthConfig
from looplab.models import Model
from looplab.training import train
from looplab.training.device import place
from looplab.training.run_folder.run import run_folder
from tests.models.small import make_spec
from tests.training.tiny import after_step, assert_same_bits, saved_tensors, tiny

_ALL_LOOPS = CurriculumConfig(loops=GrowthConfig(start=4))


def test_a_cpu_is_exact() -> None:
    placement = place("cpu", "auto")
    assert placement.device == torch.device("cpu")
    assert placement.precision == "fp32"
    assert placement.prepare(Model(make_spec())).compute_dtype is None


def test_bf16_is_what_products_are_cast_to() -> None:
    placement = place("cpu", "bf16")
    assert placement.prepare(Model(make_spec())).compute_dtype is torch.bfloat16


def test_mixed_rounds_in_the_loops_without_gradients_alone(tmp_path: Path) -> None:
    model = place("cpu", "mixed").prepare(Model(make_spec()))
    assert (model.compute_dtype, model.prefix_dtype) == (None, torch.bfloat16)
    mixed, exact = (
        replace(tiny(tmp_path / name, steps=20), precision=name, curriculum=_ALL_LOOPS)
        for name in ("mixed", "fp32")
    )
    weights = []
    for config in (mixed, exact):
        train(config)
        weights.append(saved_tensors(config)["model.read_in.weight"])
    assert not torch.equal(*weights)
    torch.testing.assert_close(*weights, rtol=0, atol=0.02)


def test_tf32_needs_a_gpu() -> None:
    with pytest.raises(ConfigError, match="precision cannot be tf32 on cpu") as refused:
        place("cpu", "tf32")
    assert refused.value.key == "precision"


@pytest.mark.parametrize("name", ["", "cuda:99", "vulkan"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(ConfigError, match=f"device cannot be '{name}' on this machine") as refused:
        place(name, "auto")
    assert refused.value.key == "device"


def test_nothing_is_written_for_a_wrong_one(tmp_path: Path) -> None:
    config = replace(tiny(tmp_path / "runs"), device="gpu")
    with pytest.raises(ConfigError):
        train(config)
    assert not (tmp_path / "runs").exists()


def test_auto_on_a_cpu_is_the_cpu_in_fp32(tmp_path: Path, cuda: Callable[..., None]) -> None:
    """Bit for bit; the weights of bf16 are float32, too."""
    cuda(is_available=lambda: False)
    auto = replace(tiny(tmp_path / "auto"), device="auto")
    asked = replace(tiny(tmp_path / "asked"), precision="fp32")
    halved = replace(tiny(tmp_path / "bf16"), precision="bf16")
    for config in (auto, asked, halved):
        train(config)
    assert_same_bits(saved_tensors(auto), saved_tensors(asked))
    kept = saved_tensors(halved)
    assert all(tensor.dtype is torch.float32 for tensor in kept.values())
    assert not torch.equal(
        kept["model.read_in.weight"], saved_tensors(auto)["model.read_in.weight"]
    )
    assert run_folder(halved).path.name != run_folder(auto).path.name


CPU = "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory"
ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    RuntimeError(CPU),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=["cuda", "cpu", "python"])
def test_the_run_says_what_helps_and_goes_on(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise error

    config = tiny(tmp_path)
    with monkeypatch.context() as patched:
        after_step(patched, 17, full)
        with pytest.raises(RunError, match=r"out of memory in a step; training\.shards=2 "):
            train(config)
    assert sorted(path.stem for path in run_folder(config).checkpoints.glob("*.json"))[-1][-2:] == (
        "10"
    )
    assert train(config).step == config.training.steps


def test_other_errors_are_not_taken_for_it() -> None:
    assert not out_of_memory(RuntimeError("shapes do not fit"))
    assert not out_of_memory(ValueError("can't allocate memory"))


def test_a_real_allocation_that_fails_is_known() -> None:
    with pytest.raises(RuntimeError) as failed:
        torch.empty(2**50, dtype=torch.float64)
    assert out_of_memory(failed.value)
