"""The captured step: a stage's device work is recorded once as a CUDA graph and then replayed, so
that the host only sets what changes between steps. Steps of several runs are one graph, in which
each run has a stream of its own: a GPU that the kernels of one leave partly idle computes several.

runner = GraphRunner(CudaRecorder(device))
runner.run(stage, body, generators)                   # makes one step, captured or not
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Protocol

import torch
from torch import Generator
from tqdm import tqdm

# Steps of a stage before it is captured: what is allocated at first use (code, Adam's state,
# workspaces) must exist by then.
_EAGER_STEPS = 3

Body = Callable[[], None]


class Recorder(Protocol):
    """The part of a GraphRunner that needs a GPU."""

    def aside(self, bodies: Sequence[Body]) -> None:
        """Run the bodies uncaptured, each on its stream of later captures."""

    def capture(
        self, bodies: Sequence[Body], generators: Sequence[Generator]
    ) -> Callable[[], None]:
        """Record what the bodies queue, each on its stream, without running it; the function that
        replays it. The generators are those that the bodies sample from."""


class GraphRunner:
    """Runs bodies that only queue work on the device and, for one key, read no changing values of
    the host: three times uncaptured, then captured.

    Without a recorder every body is simply called. Each call of `run` or `run_all` makes exactly
    one step of each body. None may read what another writes. What a body reads and writes must keep
    its address in memory; after a change, call `drop`.
    """

    def __init__(self, recorder: Recorder | None) -> None:
        self.recorder = recorder
        self.drop()

    def drop(self) -> None:
        """Delete the graph, which frees its memory; the next steps are uncaptured again."""
        self.key: Hashable = None
        self.steps = 0
        self.replay: Callable[[], None] | None = None

    def run(self, key: Hashable, body: Body, generators: list[Generator]) -> None:
        """Make one step of one body; as `run_all`."""
        self.run_all(key, [body], [generators])

    def run_all(
        self, key: Hashable, bodies: Sequence[Body], generators: Sequence[list[Generator]]
    ) -> None:
        """Make one step of each body, which samples from its list of generators. If capturing
        fails, print one line, replace the generators by others of the same seed, and capture no
        more."""
        if self.recorder is None:
            _call(bodies)
            return
        if key != self.key:
            self.drop()  # before memory is allocated for the next
            self.key = key
        if self.steps < _EAGER_STEPS:
            self.steps += 1
            self.recorder.aside(bodies)
            return
        if self.replay is None:
            try:
                self.replay = self.recorder.capture(bodies, list(chain(*generators)))
            except Exception as error:  # of any kind: the step is right without a graph
                self._give_up(error, generators)
                _call(bodies)
                return
        self.replay()

    def _give_up(self, error: Exception, generators: Sequence[list[Generator]]) -> None:
        reason = " ".join(str(error).split("\n")[0].split()) or type(error).__name__
        tqdm.write(f"steps are not captured as a CUDA graph, and slower for it: {reason}")
        self.recorder = None
        self.drop()
        # A generator of a broken capture cannot sample. It has not been used since it was seeded,
        # so that its seed is its whole state.
        for of_body in generators:
            of_body[:] = [
                Generator(generator.device).manual_seed(generator.initial_seed())
                for generator in of_body
            ]


def _call(bodies: Sequence[Body]) -> None:
    for body in bodies:
        body()


def make_recorder(device: torch.device, capture: bool | None, obstacle: str) -> CudaRecorder | None:
    """The recorder of a training on `device`; None if `capture` is False, on devices other than
    CUDA, and where there is an `obstacle`, with a printed line.

    Raises ValueError where `capture` is True and impossible.
    """
    if device.type != "cuda":
        if capture:
            raise ValueError(f"a step on {device} cannot be captured: only CUDA has graphs")
        return None
    if capture is False:
        return None
    if obstacle:
        if capture:
            raise ValueError(f"steps cannot be captured where {obstacle}")
        tqdm.write(f"steps are not captured as a CUDA graph: {obstacle}")
        return None
    return CudaRecorder(device)


class CudaRecorder:
    """Captures on streams of its own, one for each body; the first is that of a run alone.

    Each graph has its own memory pool, which PyTorch empties before it captures the next, so that
    there is only one at a time. In it a stream reuses no memory of another: several bodies take as
    much as their graphs together.
    """

    def __init__(self, device: torch.device) -> None:
        self.streams = [torch.cuda.Stream(device)]

    def aside(self, bodies: Sequence[Body]) -> None:
        first = self.streams[0]
        main = torch.cuda.current_stream(first.device)
        first.wait_stream(main)
        with torch.cuda.stream(first):
            self._beside(bodies)
        main.wait_stream(first)

    def capture(
        self, bodies: Sequence[Body], generators: Sequence[Generator]
    ) -> Callable[[], None]:
        graph, first = torch.cuda.CUDAGraph(), self.streams[0]
        # A replay samples from the current state of a registered generator: seeded by the host
        # before each step, it gives the same numbers as without a graph.
        for generator in generators:
            graph.register_generator_state(generator)
        # The outer context restores the caller's stream even if the capture fails.
        with torch.cuda.stream(first), torch.cuda.graph(graph, stream=first):
            self._beside(bodies)
        return graph.replay

    def _beside(self, bodies: Sequence[Body]) -> None:
        """Queue the first body on the first stream, which is the current one, and each other on a
        stream that begins there and ends there."""
        first = self.streams[0]
        while len(self.streams) < len(bodies):
            self.streams.append(torch.cuda.Stream(first.device))
        others = self.streams[1 : len(bodies)]
        for stream in others:
            stream.wait_stream(first)
        try:
            bodies[0]()
            for stream, body in zip(others, bodies[1:], strict=True):
                with torch.cuda.stream(stream):
                    body()
        finally:  # a capture with open ends would hide the error
            for stream in others:
                first.wait_stream(stream)
