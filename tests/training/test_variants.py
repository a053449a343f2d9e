"""A run computes by the variants of the kernels that it began with, whatever the table says later,
and ends in the same bits; what an environment says of it; and under torchrun the first says."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from looplab.conf.schema import Config, LoopsConfig, ModelConfig
from looplab.models.kernels.choice import INTERPRETER, Choice, Row
from looplab.models.kernels.variants import Variants
from looplab.training import Run, train
from looplab.training.device import Placement, shape_of
from looplab.training.loop import Session
from looplab.training.processes import Processes
from looplab.training.run_folder.checkpoint import Checkpoint
from looplab.training.run_folder.run import run_folder
from tests.conftest import own_table
from tests.training.tiny import assert_same_bits, crashed, saved_tensors, tiny

FIRST = Variants(mlp_backward="cublas")
SECOND = Variants(qkv_forward="cublas")


def by_kernels(folder: Path) -> Config:
    """The smallest run that kernels compute: two steps, a checkpoint after each."""
    config = tiny(folder, steps=2, batch_size=1, checkpoint_every=1)
    model = ModelConfig(n_embd=32, n_head=1, n_positions=2)
    task = replace(config.task, dims=1, points=2)
    return replace(
        config, backend="triton", model=model, task=task, loops=LoopsConfig(1, 1), precision="fp32"
    )


def write_table(config: Config, variants: Variants) -> None:
    """The user's own, of one row that fits the run."""
    shape = shape_of(config)
    row: Row = {"capability": INTERPRETER, "precision": "fp32", "n_embd": 32, "hidden": 128}
    row |= {"rows": shape.rows, "variants": asdict(variants), "backend": "triton"}
    assert shape == (32, 1, 128, 1, 3)
    own_table().parent.mkdir(exist_ok=True, parents=True)
    own_table().write_text(json.dumps({"rows": [row]}), encoding="utf-8")


def kept(config: Config) -> Mapping[str, Any]:
    """The run's environment.json."""
    made_with = run_folder(config).made_with()
    assert made_with is not None
    return made_with


def variants_of(run: Run) -> Variants:
    """Those that its model computes by."""
    segment = run.model.run_segment
    assert isinstance(segment, partial)
    variants = segment.keywords["variants"]
    assert isinstance(variants, Variants)
    return variants


@pytest.mark.skipif(
    torch.cuda.is_available() or not find_spec("triton"), reason="interprets the kernels"
)
def test_a_run_goes_on_by_the_variants_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPLAB_CACHE", str(tmp_path / "cache"))
    whole, stopped = by_kernels(tmp_path / "whole"), by_kernels(tmp_path / "stopped")
    write_table(whole, FIRST)
    assert variants_of(train(whole)) == FIRST
    assert kept(whole)["kernels"]["variants"] == asdict(FIRST)
    crashed(stopped, 1)
    write_table(stopped, SECOND)
    capsys.readouterr()
    assert variants_of(train(stopped)) == FIRST
    said = capsys.readouterr().out
    assert "it goes on by the kernels' variants that it began with" in said
    assert kept(stopped)["kernels"] == kept(whole)["kernels"]
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))
    # Trained again it begins anew.
    assert variants_of(train(stopped, again=True)) == SECOND
    assert kept(stopped)["kernels"]["table"] != kept(whole)["kernels"]["table"]


class Second:
    """The second of two processes, and what it hears of the first."""

    rank, size = 1, 2

    def __init__(self, placement: Placement) -> None:
        self.placement = placement

    def from_first(self, step: int, state: dict[str, Tensor]) -> Checkpoint:
        return Checkpoint(step, state)

    def told(self, _: Placement) -> Placement:
        return self.placement


@pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")
def test_the_first_processs_choice_is_everybodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    config = by_kernels(tmp_path)
    write_table(config, SECOND)
    first = Placement(torch.device("cpu"), "fp32", "triton", "", Choice(FIRST))
    session = Session(config, cast(Processes, Second(first)), False, ())
    session.restore()
    assert session.placement == first
    assert variants_of(session.run()) == FIRST
    assert not run_folder(config).path.exists()


CUDA = torch.device("cuda", 0)


def placed(backend: str, variants: Variants) -> Placement:
    """A run on a GPU, as its table has it today."""
    return Placement(CUDA, "bf16", backend, "", Choice(variants))


def test_environment_decides_and_before_the_table_all_were_fused() -> None:
    then = {"backend": "triton", "kernels": {"variants": asdict(FIRST), "table": "then"}}
    today = placed("triton", SECOND)
    begun = today.as_begun(then, "auto")
    assert begun == placed("triton", FIRST)
    assert begun.choice is not None
    assert begun.choice.table == "then"
    assert today.as_begun({"backend": "triton"}, "auto").choice == Choice(Variants())
    # Begun on a CPU, gone on on a GPU.
    assert today.as_begun({"backend": "cpu"}, "auto") == today
    assert today.as_begun({"backend": "cpu", "continued": [then]}, "auto") == begun
    assert placed("compile", SECOND).as_begun(then, "auto").backend == "triton"
    by_compile = {"backend": "compile"}
    assert today.as_begun(by_compile, "auto").backend == "compile"
    assert today.as_begun(by_compile, "triton") == placed("triton", Variants())
    # Where nothing is chosen, as on a CPU.
    on_cpu = Placement(torch.device("cpu"), "fp32", "cpu", "")
    assert on_cpu.as_begun(then, "auto") == on_cpu
