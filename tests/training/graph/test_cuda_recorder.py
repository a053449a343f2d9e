"""What the captured step asks of CUDA, seen without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from reloop.training.graph import CudaRecorder
from reloop.training.step import Trainer
from tests.training.tiny import Crash, crash, make_trainer, tiny


def test_what_is_asked_of_cuda_and_in_which_order(cuda: Callable[..., None]) -> None:
    """Generators are known before the capture begins; the caller's stream waits for the other and
    comes back even from a capture that breaks."""
    log: list[str] = []

    class Stream:
        device = torch.device("cuda", 0)

        def __init__(self, name: object) -> None:
            self.name = name

        def wait_stream(self, other: Stream) -> None:
            log.append(f"{self.name} waits for {other.name}")

    class Graph:
        def register_generator_state(self, generator: object) -> None:
            log.append(f"register {generator}")

        def replay(self) -> None:
            log.append("replay")

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        log.append(f"on {stream.name}")
        try:
            yield
        finally:
            log.append(f"off {stream.name}")

    @contextmanager
    def capturing(graph: Graph, stream: Stream) -> Iterator[None]:
        log.append(f"begin on {stream.name}")
        yield
        log.append("end")

    cuda(Stream=lambda device: Stream("aside"), current_stream=lambda device: Stream("main"))
    cuda(stream=on, CUDAGraph=Graph, graph=capturing)
    recorder = CudaRecorder(torch.device("cuda"))
    recorder.aside(lambda: log.append("body"))
    assert log == ["aside waits for main", "on aside", "body", "off aside", "main waits for aside"]
    log.clear()
    replay = recorder.capture(lambda: log.append("body"), ["a", "b"])  # type: ignore[list-item]
    replay()
    begun = ["register a", "register b", "on aside", "begin on aside", "body"]
    assert log == [*begun, "end", "off aside", "replay"]
    log.clear()
    with pytest.raises(Crash):
        recorder.capture(crash, [])
    assert log[-1] == "off aside"


def test_only_cuda_captures(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path))
    assert trainer.runner.recorder is None
    with pytest.raises(ValueError, match="a step on cpu cannot be captured"):
        Trainer(trainer.config, trainer.task, trainer.curriculum, trainer.model, capture=True)
