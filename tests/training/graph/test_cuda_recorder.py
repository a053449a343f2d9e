"""What the captured step asks of CUDA, seen without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Generator

from reloop.training.graph import Body, CudaRecorder
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


def _bodies(log: list[str], count: int) -> list[Body]:
    return [partial(log.append, f"body {index}") for index in range(count)]


def test_what_is_asked_of_cuda_and_in_which_order(log: list[str]) -> None:
    """Generators are known before the capture begins; the caller's stream waits for the other and
    comes back even from a capture that breaks."""
    recorder, (body,) = CudaRecorder(torch.device("cuda")), _bodies(log, 1)
    recorder.aside([body])
    assert log == ["a waits for main", "on a", "body 0", "off a", "main waits for a"]
    log.clear()
    replay = recorder.capture([body], [Generator().manual_seed(seed) for seed in (3, 4)])
    replay()
    assert log == [
        *("register 3", "register 4", "on a", "begin on a", "body 0", "end", "off a", "replay"),
    ]
    log.clear()
    with pytest.raises(Crash):
        recorder.capture([crash], [])
    assert log[-1] == "off a"


def test_each_of_several_bodies_has_a_stream(log: list[str]) -> None:
    """The same uncaptured and captured; it begins after what came before, and the first stream goes
    on when all have ended, even where one breaks."""
    recorder, bodies = CudaRecorder(torch.device("cuda")), _bodies(log, 3)
    beside = [
        *("b waits for a", "c waits for a", "body 0"),
        *("on b", "body 1", "off b", "on c", "body 2", "off c"),
        *("a waits for b", "a waits for c"),
    ]
    recorder.aside(bodies)
    assert log == ["a waits for main", "on a", *beside, "off a", "main waits for a"]
    log.clear()
    recorder.capture(bodies, [])
    assert log == ["on a", "begin on a", *beside, "end", "off a"]
    log.clear()
    with pytest.raises(Crash):
        recorder.capture([bodies[0], crash, bodies[2]], [])
    assert log[-6:] == ["on b", "off b", "a waits for b", "a waits for c", "end", "off a"]


def test_fewer_bodies_need_fewer_streams(log: list[str]) -> None:
    """As after one of several runs has ended."""
    recorder, bodies = CudaRecorder(torch.device("cuda")), _bodies(log, 3)
    recorder.aside(bodies)
    log.clear()
    recorder.capture(bodies[:2], [])
    assert not [line for line in log if "c" in line.split()]
    assert log.count("body 1") == 1


def test_only_cuda_captures(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path))
    assert trainer.runner.recorder is None
    with pytest.raises(ValueError, match="a step on cpu cannot be captured"):
        Trainer(trainer.config, trainer.task, trainer.curriculum, trainer.model, capture=True)
