"""What the captured step asks of CUDA, seen without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Generator

from reloop.training.graph import CudaRecorder
from reloop.training.step import Trainer
from tests.training.tiny import Crash, crash, make_trainer, tiny


class _Stream:
    """Named in the order in which they are made."""

    device = torch.device("cuda", 0)

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def wait_stream(self, other: _Stream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def log(cuda: Callable[..., None]) -> list[str]:
    """What is asked of CUDA from here on."""
    log: list[str] = []
    names, main = iter("abc"), _Stream(log, "main")

    class Graph:
        def register_generator_state(self, generator: Generator) -> None:
            log.append(f"register {generator.initial_seed()}")

        def replay(self) -> None:
            log.append("replay")

    @contextmanager
    def on(stream: _Stream) -> Iterator[None]:
        log.append(f"on {stream.name}")
        try:
            yield
        finally:
            log.append(f"off {stream.name}")

    @contextmanager
    def capturing(graph: Graph, stream: _Stream) -> Iterator[None]:
        log.append(f"begin on {stream.name}")
        try:
            yield
        finally:
            log.append("end")

    cuda(Stream=lambda device: _Stream(log, next(names)), current_stream=lambda device: main)
    cuda(stream=on, CUDAGraph=Graph, graph=capturing)
    return log


def test_what_is_asked_of_cuda_and_in_which_order(log: list[str]) -> None:
    """Generators are known before the capture begins; the caller's stream waits for the other and
    comes back even from a capture that breaks."""
    recorder, body = CudaRecorder(torch.device("cuda")), partial(log.append, "body")
    recorder.aside(body)
    assert log == ["a waits for main", "on a", "body", "off a", "main waits for a"]
    log.clear()
    replay = recorder.capture(body, [Generator().manual_seed(seed) for seed in (3, 4)])
    replay()
    assert log == [
        *("register 3", "register 4", "on a", "begin on a", "body", "end", "off a", "replay"),
    ]
    log.clear()
    with pytest.raises(Crash):
        recorder.capture(crash, [])
    assert log[-1] == "off a"


def test_only_cuda_captures(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path))
    assert trainer.runner.recorder is None
    with pytest.raises(ValueError, match="a step on cpu cannot be captured"):
        Trainer(trainer.config, trainer.task, trainer.curriculum, trainer.model, capture=True)
