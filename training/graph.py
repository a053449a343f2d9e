"""The captured step: a stage's device work is recorded once as a CUDA graph and then replayed, so
that the host only sets what changes from step to step.

runner = GraphRunner(CudaRecorder(device))
runner.run(stage, body, generators)                   # makes one step, in one way or the other
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

import torch
from torch import Generator
from tqdm import tqdm

# Steps of a stage before it is captured: what is made at first use (code, Adam's state, work
# spaces) must be there by then.
_UNCAPTURED = 3

Body = Callable[[], None]


class Recorder(Protocol):
    """The device's part: all of a GraphRunner that needs a GPU."""

    def aside(self, body: Body) -> None:
        """Run the body as it is, where it can be captured later."""

    def capture(self, body: Body, generators: list[Generator]) -> Callable[[], None]:
        """Record what the body queues, running none of it; what runs it. The generators are those
        that it draws from."""


class GraphRunner:
    """Runs bodies that only queue work on the device and depend, for one key, on nothing of the
    host that changes: three times as they are, then captured.

    Without a recorder every body is simply called. Each call of `run` makes one step, never none or
    two. What the body reads and writes must keep its place in memory, or be followed by `drop`.
    """

    def __init__(self, recorder: Recorder | None) -> None:
        self.recorder = recorder
        self.drop()

    def drop(self) -> None:
        """Forget what was captured: its memory is free, and the next steps prepare anew."""
        self.key: Hashable = None
        self.made = 0
        self.replay: Callable[[], None] | None = None

    def run(self, key: Hashable, body: Body, generators: list[Generator]) -> None:
        """Make one step. Where capturing fails, it says so in one line, replaces the generators by
        others of the same seed, and captures no more."""
        if self.recorder is None:
            body()
            return
        if key != self.key:
            self.drop()  # before memory is taken for the next
            self.key = key
        if self.made < _UNCAPTURED:
            self.made += 1
            self.recorder.aside(body)
            return
        if self.replay is None:
            try:
                self.replay = self.recorder.capture(body, generators)
            except Exception as error:  # whatever it is, the step is right without a graph
                self._give_up(error, generators)
                body()
                return
        self.replay()

    def _give_up(self, error: Exception, generators: list[Generator]) -> None:
        reason = " ".join(str(error).split("\n")[0].split()) or type(error).__name__
        tqdm.write(f"steps are not captured as a CUDA graph, and slower for it: {reason}")
        self.recorder = None
        self.drop()
        # A generator that a broken capture holds refuses to draw. Nothing has been drawn since it
        # was seeded, so that its seed is all there is to it.
        generators[:] = [
            Generator(generator.device).manual_seed(generator.initial_seed())
            for generator in generators
        ]


def make_recorder(device: torch.device, capture: bool | None, sampled: bool) -> CudaRecorder | None:
    """What captures the steps of a training on `device`, unless `capture` is False; None elsewhere
    than on CUDA, and for `sampled` loops, which it says in one line: nearly every step would begin
    another stage, and a graph for each number of loops would hold memory for as many steps.

    ValueError where `capture` is True and that cannot be.
    """
    if device.type != "cuda":
        if capture:
            raise ValueError(f"a step on {device} cannot be captured: only CUDA has graphs")
        return None
    if capture is False:
        return None
    if sampled:
        reason = "each draws how many loops it makes"
        if capture:
            raise ValueError(f"steps cannot be captured where {reason}")
        tqdm.write(f"steps are not captured as a CUDA graph: {reason}")
        return None
    return CudaRecorder(device)


class CudaRecorder:
    """Captures on a stream of its own.

    Each graph has a memory pool of its own, which PyTorch empties before it captures the next, so
    that there is never more than one.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)

    def aside(self, body: Body) -> None:
        main = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            body()
        main.wait_stream(self.stream)

    def capture(self, body: Body, generators: list[Generator]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # A replay draws from where a registered generator then stands: seeded anew by the host
        # before each step, it gives the same numbers as without a graph.
        for generator in generators:
            graph.register_generator_state(generator)
        # The outer context comes back to the caller's stream even if the capture breaks.
        with torch.cuda.stream(self.stream), torch.cuda.graph(graph, stream=self.stream):
            body()
        return graph.replay
