"""Captured steps on a real GPU: the same numbers, no more memory, and no waiting."""

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from looplab.conf.schema import Config
from looplab.training.assemble import build_curriculum, build_model, build_task
from looplab.training.device import place
from looplab.training.step import Trainer
from tests.training.graph.captured import VARIANTS, everything, variant
from tests.training.tiny import assert_same_bits, tiny

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
if torch.cuda.is_available():  # so that cuBLAS gives the same bits on every stream
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
BACKENDS = [
    "eager",
    pytest.param("compile", marks=pytest.mark.slow),
    pytest.param(
        "triton",
        marks=pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed"),
    ),
]


@pytest.fixture(autouse=True)
def _global_settings() -> Iterator[None]:
    """TF32 is the process's."""
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def _trainer(
    config: Config, capture: bool, backend: str = "eager", precision: str = "auto"
) -> Trainer:
    if backend == "triton":  # wide enough for the kernels
        config = replace(config, model=replace(config.model, n_embd=32))
    task = build_task(config)
    model = place("cuda", precision, backend).prepare(build_model(config, task))
    return Trainer(config, task, build_curriculum(config, task), model, capture)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", VARIANTS)
def test_captured_is_uncaptured(name: str, backend: str, precision: str, tmp_path: Path) -> None:
    """To the bit over several stages: what is drawn, learned and counted."""
    config = variant(name, tmp_path)
    plain, captured = (_trainer(config, flag, backend, precision) for flag in (False, True))
    assert plain.runner.recorder is None
    for step in range(22):
        plain.update(step)
        captured.update(step)
        assert_same_bits(everything(captured), everything(plain))
    assert captured.runner.replay is not None
    assert captured.fetch() == plain.fetch()


def test_a_replayed_step_waits_for_nothing(tmp_path: Path) -> None:
    config = tiny(tmp_path, clip=0.5, weight_decay=0.1, shards=2)
    trainer = _trainer(config, True)
    for step in range(5):
        trainer.update(step)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(5, 10):
            trainer.update(step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert trainer.fetch().bad_step is None
