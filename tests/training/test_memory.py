"""Out of memory in a step: one line with what helps, and a run folder that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from reloop import main as run
from reloop.conf.mistakes import RunError, out_of_memory
from reloop.training import train
from reloop.training.run_folder.run import run_folder
from tests.training.tiny import after_step, tiny

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
        with pytest.raises(RunError, match=r"out of memory in a step; training\.shards=2 ") as told:
            train(config)
    assert "\n" not in str(told.value)
    assert sorted(path.stem for path in run_folder(config).checkpoints.glob("*.json"))[-1][-2:] == (
        "10"
    )
    assert train(config).step == config.training.steps


def test_the_command_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise RuntimeError(CPU)

    after_step(monkeypatch, 3, full)
    words = f"task=linear training.steps=9 model.n_embd=8 device=cpu folder={tmp_path}"
    assert run.main(words.split()) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "training.shards=2" in err


def test_other_errors_are_not_taken_for_it() -> None:
    assert not out_of_memory(RuntimeError("shapes do not fit"))
    assert not out_of_memory(ValueError("can't allocate memory"))


def test_a_real_allocation_that_fails_is_known() -> None:
    with pytest.raises(RuntimeError) as failed:
        torch.empty(2**50, dtype=torch.float64)
    assert out_of_memory(failed.value)
